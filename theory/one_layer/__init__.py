"""Any one-layer model: its exact weights, the worst case over all strings, proofs for one head, several and `half`.

N is the numerator of a logit difference, D its denominator, both sums of weights; relative positions are key minus
query.
"""

from theory.one_layer._branching import Leaf as Leaf
from theory.one_layer._branching import Tree as Tree
from theory.one_layer._branching import tree_size as tree_size
from theory.one_layer._half import CertifiedHalf as CertifiedHalf
from theory.one_layer._half import certify_half as certify_half
from theory.one_layer._heads import CertifiedHeads as CertifiedHeads
from theory.one_layer._heads import Place as Place
from theory.one_layer._heads import certify_heads as certify_heads
from theory.one_layer._model import MODEL_PRECISION as MODEL_PRECISION
from theory.one_layer._model import Axes as Axes
from theory.one_layer._model import FinalNorm as FinalNorm
from theory.one_layer._model import Head as Head
from theory.one_layer._model import OneLayerModel as OneLayerModel
from theory.one_layer._model import PairScore as PairScore
from theory.one_layer._model import StepCase as StepCase
from theory.one_layer._one_head import CertifiedHead as CertifiedHead
from theory.one_layer._one_head import View as View
from theory.one_layer._one_head import WorstStep as WorstStep
from theory.one_layer._one_head import certify_strings as certify_strings
from theory.one_layer._one_head import kernels_for as kernels_for
from theory.one_layer._tables import TableModel as TableModel
from theory.one_layer._tables import certify_table as certify_table
from theory.one_layer._worst_case import first_step as first_step
from theory.one_layer._worst_case import float_votes as float_votes
from theory.one_layer._worst_case import later_steps as later_steps
from theory.one_layer._worst_case import needed_spans as needed_spans
