"""Theorem 3.2: two layers with RoPE; anchors on a curve, the length they copy, and a ceiling."""

from theory.two_layer._anchor_curve import AnchorScores as AnchorScores
from theory.two_layer._anchor_curve import Form as Form
from theory.two_layer._ceiling import log_attention_share as log_attention_share
from theory.two_layer._ceiling import norm_scale as norm_scale
from theory.two_layer._ceiling import plane_curve_ceiling as plane_curve_ceiling
from theory.two_layer._curve_shape import CRITICAL_GAP as CRITICAL_GAP
from theory.two_layer._curve_shape import CurveShape as CurveShape
from theory.two_layer._curve_shape import curve_shape as curve_shape
from theory.two_layer._curve_shape import falling_shape as falling_shape
from theory.two_layer._length import LengthProof as LengthProof
from theory.two_layer._length import prove_length as prove_length
from theory.two_layer._length import two_layer_length as two_layer_length
from theory.two_layer._theorem_3_2 import LEAST_BUDGET as LEAST_BUDGET
from theory.two_layer._theorem_3_2 import LEMMA_FACTOR as LEMMA_FACTOR
from theory.two_layer._theorem_3_2 import LENGTH_FACTOR as LENGTH_FACTOR
from theory.two_layer._theorem_3_2 import all_budgets as all_budgets
from theory.two_layer._theorem_3_2 import anchor_lemma as anchor_lemma
from theory.two_layer._theorem_3_2 import paper_two_layer_length as paper_two_layer_length
