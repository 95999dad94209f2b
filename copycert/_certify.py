"""Certifying a model of one's own."""

from proofs_check.certify import Certified as Certified
from proofs_check.certify import Subject as Subject
from proofs_check.certify import certify as certify
from proofs_check.certify import load as load
from proofs_check.certify import save as save
