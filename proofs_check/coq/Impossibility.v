(** * What one softmax-attention layer with shift-invariant positions cannot copy

    All theorems are about one layer with one head and a linear read-out, as defined in [Model.v]; T is the type of
    tokens, [tok false] and [tok true] are the tokens 0 and 1, A and B are the tokens before and after the string.
    A and B are arbitrary lists: of any length, empty included, with any tokens in them, 0 and 1 included.  Scores,
    values and the residual are arbitrary real numbers.  (It is not even assumed that the tokens 0 and 1 differ: with
    equal tokens the statements are true for a duller reason.)

    Labels: "paper" marks what the paper states, under our reading of its missing definitions; "new" goes beyond it. *)

From Coq Require Import Reals List Lra Lia.
From Copy Require Import Model Cases Cancellation.
Import ListNotations.
Open Scope R_scope.

(** Attention weights are positive, so a vote has the sign of the preference. *)

Lemma votes_nonnegative {T} (m : model T) c x r : 0 <= preference m c x -> 0 <= votes_of m c x r.
Proof. intro. apply Rmult_le_pos; [apply Rlt_le, exp_pos | assumption]. Qed.

Lemma votes_nonpositive {T} (m : model T) c x r : preference m c x <= 0 -> votes_of m c x r <= 0.
Proof.
  intro. unfold votes_of. assert (0 <= exp (score m c x r) * - preference m c x); [|lra].
  apply Rmult_le_pos; [apply Rlt_le, exp_pos | lra].
Qed.

Section Impossibility.
Context {T : Type}.
Variable tok : bool -> T.
Variables A B : list T.

Notation zero := (tok false).
Notation one := (tok true).

(** ** 1. Length 6: never (new)

    No model copies every binary string of length at most 6. *)

(** The votes may be any function of query token, key token and shift; nothing of softmax is left. *)
Theorem length_six_any_votes :
  forall vote : T -> T -> nat -> R, ~ all_positive tok A B vote 6.
Proof.
  intros vote positive.
  pose proof (total_positive tok A B vote 6 cases_any eq_refl positive) as contradiction.
  rewrite total_any in contradiction. lra.
Qed.

(** The same with attention weights e of any sign in place of exp(score), and values u: N(s,i) > 0 can't hold for all
    strings s of length at most 6 and all steps i. *)
Theorem length_six_any_weights :
  forall (e : T -> T -> nat -> R) (u : T -> bool -> R),
    ~ (forall s i, (length s <= 6)%nat -> (1 <= i <= length s)%nat ->
         0 < sum_over_keys (fun x r => e (query tok A B s i) x r * (u x (symbol s i) - u x (negb (symbol s i))))
               (seen tok A B s i)).
Proof.
  intros e u right. apply (length_six_any_votes (fun c x r => e c x r * (u x false - u x true))).
  intros s i short range. unfold numerator. specialize (right s i short range).
  rewrite <- sum_scale.
  erewrite sum_ext; [exact right|]. intros x r. destruct (symbol s i); cbn [sign negb]; ring.
Qed.

(** The softmax model itself. *)
Theorem length_six :
  forall m : model T, ~ copies_all tok A B m 6.
Proof. intros m. rewrite copies_all_iff. apply length_six_any_votes. Qed.

(** ** 2. Length 5: not if 0 votes for 0 and 1 votes for 1 (paper)

    This is the paper's Theorem 3.1 as we read it.  As printed it has no condition on signs; [Attained.v] has a
    model in which both tokens vote for 0 and which copies all strings of length at most 5. *)

(** All that is used: to the query token 0, a 1 that stands right before it is no better evidence for output 0 than a
    0 at the same place (new, in this generality). *)
Theorem length_five_any_votes :
  forall vote : T -> T -> nat -> R,
    vote zero one 1%nat <= vote zero zero 1%nat -> ~ all_positive tok A B vote 5.
Proof.
  intros vote no_better positive.
  pose proof (total_positive tok A B vote 5 cases_opposite eq_refl positive) as contradiction.
  rewrite total_opposite in contradiction. lra.
Qed.

(** With a residual, "votes" means the value's vote and the query token's own together, for the query token 0.
    A vote of 0 counts as either. *)
Theorem length_five_opposite_preferences :
  forall m : model T,
    0 <= preference m zero zero -> preference m zero one <= 0 -> ~ copies_all tok A B m 5.
Proof.
  intros m for_0 for_1. rewrite copies_all_iff. apply length_five_any_votes.
  apply Rle_trans with 0; [now apply votes_nonpositive | now apply votes_nonnegative].
Qed.

(** Without a residual: the value of 0 does not favour output 1, and the value of 1 does not favour output 0. *)
Theorem length_five_opposite_signs :
  forall m : model T,
    (forall c y, residual m c y = 0) ->
    value m zero false - value m zero true >= 0 ->
    value m one false - value m one true <= 0 ->
    ~ copies_all tok A B m 5.
Proof.
  intros m no_residual for_0 for_1.
  apply length_five_opposite_preferences; unfold preference; rewrite !no_residual; lra.
Qed.

(** Reversed signs fail at length 2 already. *)
Theorem length_two_reversed_preferences :
  forall m : model T,
    preference m zero zero <= 0 -> 0 <= preference m zero one -> ~ copies_all tok A B m 2.
Proof.
  intros m for_1 for_0. rewrite copies_all_iff. intro positive.
  pose proof (total_positive tok A B (votes_of m) 2 cases_reversed eq_refl positive) as contradiction.
  rewrite total_reversed in contradiction.
  pose proof (votes_nonpositive m zero zero (1 + length B) for_1).
  pose proof (votes_nonnegative m zero one (1 + length B) for_0).
  lra.
Qed.

(** So a model that copies every string of length at most 5 lets the tokens 0 and 1 vote for the same output (new). *)
Theorem length_five_needs_equal_signs :
  forall m : model T,
    copies_all tok A B m 5 -> 0 < preference m zero zero * preference m zero one.
Proof.
  intros m right.
  assert (right2 : copies_all tok A B m 2).
  { intros s short. apply right. lia. }
  destruct (Rle_dec 0 (preference m zero zero)) as [p|p]; destruct (Rle_dec 0 (preference m zero one)) as [q|q].
  - destruct p as [p|p].
    + destruct q as [q|q]; [now apply Rmult_lt_0_compat|].
      exfalso. apply (length_five_opposite_preferences m); lra || assumption.
    + exfalso. apply (length_two_reversed_preferences m); lra || assumption.
  - exfalso. apply (length_five_opposite_preferences m); lra || assumption.
  - exfalso. apply (length_two_reversed_preferences m); lra || assumption.
  - replace (preference m zero zero * preference m zero one)
      with ((- preference m zero zero) * (- preference m zero one)) by ring.
    apply Rmult_lt_0_compat; lra.
Qed.

(** ** 3. Length 5 with exactly one token between the string and its copy: never, whatever the signs (new) *)

Theorem length_five_one_token_any_votes :
  length B = 1%nat -> forall vote : T -> T -> nat -> R, ~ all_positive tok A B vote 5.
Proof.
  intros one_token vote positive.
  pose proof (total_positive tok A B vote 5 cases_one_token eq_refl positive) as contradiction.
  rewrite (total_one_token tok A B vote one_token) in contradiction. lra.
Qed.

Theorem length_five_one_token :
  length B = 1%nat -> forall m : model T, ~ copies_all tok A B m 5.
Proof. intros one_token m. rewrite copies_all_iff. now apply length_five_one_token_any_votes. Qed.

End Impossibility.
