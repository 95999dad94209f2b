(** What the theorems rest on: the output is read by [check.sh], which allows the axioms of Coq's real numbers only. *)

From Copy Require Import Impossibility Attained.

Print Assumptions length_six.
Print Assumptions length_six_any_weights.
Print Assumptions length_six_any_votes.
Print Assumptions length_five_opposite_signs.
Print Assumptions length_five_opposite_preferences.
Print Assumptions length_five_any_votes.
Print Assumptions length_two_reversed_preferences.
Print Assumptions length_five_needs_equal_signs.
Print Assumptions length_five_one_token.
Print Assumptions length_five_one_token_any_votes.
Print Assumptions length_five_attained.
