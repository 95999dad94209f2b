"""Theorem 4.2: gaps and losses of minimisers."""

from proofs_check.verify.minimisers._gap import check_minimiser_gap as check_minimiser_gap
from proofs_check.verify.minimisers._gap import check_minimiser_limit_failure as check_minimiser_limit_failure
from proofs_check.verify.minimisers._loss import check_minimiser_loss as check_minimiser_loss
