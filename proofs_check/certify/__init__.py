"""Certifying a model of one's own: where it comes from, its exact numbers, and its certificate."""

from proofs_check.certify._certificate import Written as Written
from proofs_check.certify._certificate import files_of as files_of
from proofs_check.certify._certificate import settings_of as settings_of
from proofs_check.certify._certificate import write_certified as write_certified
from proofs_check.certify._certify import CAP as CAP
from proofs_check.certify._certify import certify as certify
from proofs_check.certify._exact_model import one_layer_model as one_layer_model
from proofs_check.certify._exact_model import replay_error as replay_error
from proofs_check.certify._exact_model import replay_step as replay_step
from proofs_check.certify._file import save_subject as save_subject
from proofs_check.certify._outcome import Certified as Certified
from proofs_check.certify._outcome import Question as Question
from proofs_check.certify._subject import Subject as Subject
from proofs_check.certify._subject import load as load
from proofs_check.certify._subject import save as save
from proofs_check.certify._words import certified_document as certified_document
from proofs_check.certify._words import described as described
from proofs_check.certify._words import finite as finite
from proofs_check.certify._words import number_of_strings as number_of_strings
from proofs_check.certify._words import worst_document as worst_document
