"""Theorem 3.2: two-layer copiers, curves of anchors, and ceilings."""

from proofs_check.verify.two_layer._all_budgets import check_all_budgets as check_all_budgets
from proofs_check.verify.two_layer._anchor_lemma import check_anchor_lemma as check_anchor_lemma
from proofs_check.verify.two_layer._anchor_lemma import check_anchor_pair as check_anchor_pair
from proofs_check.verify.two_layer._ceiling import check_attention_share_ceiling as check_attention_share_ceiling
from proofs_check.verify.two_layer._ceiling import check_plane_curve_ceiling as check_plane_curve_ceiling
from proofs_check.verify.two_layer._counterexample import (
    check_two_layer_counterexample as check_two_layer_counterexample,
)
from proofs_check.verify.two_layer._length import check_two_layer_length as check_two_layer_length
from proofs_check.verify.two_layer._model import CONSTRUCTION as CONSTRUCTION
from proofs_check.verify.two_layer._model import TwoLayerModel as TwoLayerModel
from proofs_check.verify.two_layer._model import read_two_layer_model as read_two_layer_model
from proofs_check.verify.two_layer._model import two_layer_model as two_layer_model
from proofs_check.verify.two_layer._step import check_two_layer_wrong_step as check_two_layer_wrong_step
