"""Theorem 3.1: systems of signs."""

from proofs_check.verify.signs._system import check_sign_cancellation as check_sign_cancellation
from proofs_check.verify.signs._system import check_sign_witness as check_sign_witness
