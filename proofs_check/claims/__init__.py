"""The claims of the theorems, and the run that checks them."""

from proofs_check.claims._check import CheckParameters as CheckParameters
from proofs_check.claims._check import claim_list as claim_list
from proofs_check.claims._check import run_report as run_report
from proofs_check.claims._claim import Claim as Claim
from proofs_check.claims._claim import Status as Status
from proofs_check.claims._claim import exit_code as exit_code
from proofs_check.claims._coq import KernelError as KernelError
from proofs_check.claims._rerun import reported_parameters as reported_parameters
from proofs_check.claims._theorem_3_1 import case_documents as case_documents
from proofs_check.claims._theorem_3_1 import decision_certificate as decision_certificate
from proofs_check.claims._theorem_4_1 import UNIVERSAL as UNIVERSAL
from proofs_check.claims._theorem_4_1 import witness_document as witness_document
from proofs_check.claims._theorem_4_2 import loss_certificate as loss_certificate
