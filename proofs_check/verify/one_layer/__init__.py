"""One-layer models of any weights: strings of all lengths, single strings, and proofs by branching."""

from proofs_check.verify.one_layer._branching import check_one_layer_branching as check_one_layer_branching
from proofs_check.verify.one_layer._copies import MOST_UNITS as MOST_UNITS
from proofs_check.verify.one_layer._copies import check_one_layer_copies as check_one_layer_copies
from proofs_check.verify.one_layer._copies import check_one_layer_counterexample as check_one_layer_counterexample
