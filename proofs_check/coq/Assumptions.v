(** What the theorems rest on: the output is read by [check.sh], which allows the axioms of Coq's real numbers only. *)

From Copy Require Import Impossibility Attained Readout Neighbours TwoLayer AnchorCurve
  PaperLemma Theorem32 CentredCurve Weights Grid.

Print Assumptions length_six_any_votes.
Print Assumptions length_six_any_weights.
Print Assumptions length_six.
Print Assumptions length_five_any_votes.
Print Assumptions length_five_opposite_preferences.
Print Assumptions length_five_opposite_signs.
Print Assumptions length_two_reversed_preferences.
Print Assumptions length_five_needs_equal_signs.
Print Assumptions length_five_one_token_any_votes.
Print Assumptions length_five_one_token.

Print Assumptions length_five_attained.

Print Assumptions right_if_wrong_weight_small.
Print Assumptions right_if_gap.
Print Assumptions flip_right_iff.
Print Assumptions all_copied_iff.
Print Assumptions generation_is_exact.

Print Assumptions wrong_weight_of_neighbours.

Print Assumptions two_layer_copies_iff.
Print Assumptions two_layer_flip_iff.
Print Assumptions anchors_differ.

Print Assumptions h_of_sigmoid.
Print Assumptions inner_below.
Print Assumptions anchor_curve_quadratic.

Print Assumptions paper_lemma.

Print Assumptions two_layer_copies_if_quadratic.
Print Assumptions two_layer_copies.
Print Assumptions two_layer_generates.
Print Assumptions theorem_3_2.
Print Assumptions theorem_3_2_without_logarithm.

Print Assumptions centred_curve_quadratic.
Print Assumptions centred_copies.

Print Assumptions theorem_3_2_from_weights.
Print Assumptions theorem_3_2_without_log_from_weights.
Print Assumptions theorem_3_2_centred_from_weights.

Print Assumptions grid_copies_iff.
Print Assumptions grid_flip_iff.
Print Assumptions cosine_grid_copies_iff.
