(** * An attention layer on top of anything, asked to copy a binary string

    The last layer of a model: softmax attention with scores of any origin, and a linear read-out of one number, the
    vote.  A key's score may depend on all tokens seen and on the tokens that stand before the key, so on any position,
    one-dimensional or a grid, and on whatever earlier layers have computed.  [TwoLayer.v] (Theorem 3.2) and [Grid.v]
    (Theorem 4.1) are instances.

    The result: every string is copied if, at each step, the wrong keys together weigh less than the right one, and
    only then if the scores do not depend on the string.

    Labels: "paper" marks what the paper states or uses, "reconstructed" our reading of what its text leaves out, "new"
    goes beyond it. *)

From Coq Require Import Reals List Lra Lia Arith.
From Copy Require Import Model.
Import ListNotations.
Open Scope R_scope.

(** ** Sums *)

(** f 1 + .. + f n *)
Fixpoint sum_to (f : nat -> R) (n : nat) : R :=
  match n with
  | O => 0
  | S k => sum_to f k + f (S k)
  end.

(** The sum of f j over 1 <= j <= n without j = i. *)
Definition sum_except (i : nat) (f : nat -> R) (n : nat) : R := sum_to (fun j => if j =? i then 0 else f j) n.

(** The sum of [f before x] over the tokens x of [keys]; [before] are the tokens before x, those in [start] too. *)
Fixpoint sum_over_places {T : Type} (f : list T -> T -> R) (start keys : list T) : R :=
  match keys with
  | [] => 0
  | x :: later => f start x + sum_over_places f (start ++ [x]) later
  end.

(** ** The model

    [key_score l before x]  attention score of the key x with the tokens [before] before it, when all tokens seen are
                            the list l and the last of them asks.
    [vote x]                what the value of token x writes into the one direction that is read out.
    [after]                 what becomes of the attention head's output before the read-out: nothing, or a
                            normalisation, or a factor. *)

Record readout (T : Type) := {
  key_score : list T -> list T -> T -> R;
  vote : T -> R;
  after : R -> R
}.
Arguments key_score {T} _ _ _ _.
Arguments vote {T} _ _.
Arguments after {T} _ _.

Section Softmax.
Context {T : Type}.
Variable m : readout T.

(** The softmax, over all tokens seen, of their scores. *)
Definition weight (l before : list T) (x : T) : R :=
  exp (key_score m l before x) / sum_over_places (fun before' x' => exp (key_score m l before' x')) [] l.

Definition head_output (l : list T) : R :=
  sum_over_places (fun before x => weight l before x * vote m x) [] l.

(** Output 0 gets the number read out, output 1 its negative ([sign] is 1 for the symbol 0 and -1 for 1). *)
Definition output_logit (l : list T) (y : bool) : R := sign y * after m (head_output l).

Definition output_probability (l : list T) (y : bool) : R :=
  exp (output_logit l y) / (exp (output_logit l false) + exp (output_logit l true)).

End Softmax.

(** ** The task, for any model that gives probabilities *)

Section Task.
Context {T : Type}.
Variable tok : bool -> T.
Variables A B : list T.
Variable probability : list T -> bool -> R.

Definition right_at (s : list bool) (i : nat) : Prop := probability (seen tok A B s i) (symbol s i) > 1 / 2.

Definition copied (s : list bool) : Prop := forall i, (1 <= i <= length s)%nat -> right_at s i.

(** Greedy generation: k times the likelier symbol is appended. *)
Definition likelier (l : list T) : bool :=
  if Rlt_dec (probability l false) (probability l true) then true else false.

Fixpoint generate (prompt : list T) (k : nat) : list bool :=
  match k with
  | O => []
  | S k' => let written := generate prompt k' in written ++ [likelier (prompt ++ map tok written)]
  end.

End Task.

(** ** The weight of the wrong keys

    [source j] is the score of s_j in the prompt, [output j] that of the j-th symbol written; the sum is the weight of
    all symbols seen at step i but the wanted one, relative to the wanted one. *)
Definition wrong_weight (source output : nat -> R) (n i : nat) : R :=
  sum_except i (fun j => exp (source j - source i)) n + sum_to (fun j => exp (output j - source i)) (i - 1).

(** The string of length n that is [y] at place i and the other symbol everywhere else. *)
Definition flip (n i : nat) (y : bool) : list bool := map (fun j => if j =? i then y else negb y) (seq 1 n).

(** ** Rules for sums *)

Lemma sum_to_ext f g n : (forall j, (1 <= j <= n)%nat -> f j = g j) -> sum_to f n = sum_to g n.
Proof.
  induction n as [|n IH]; intro same; cbn; [reflexivity|].
  rewrite IH by (intros; apply same; lia). now rewrite same by lia.
Qed.

Lemma sum_to_le f g n : (forall j, (1 <= j <= n)%nat -> f j <= g j) -> sum_to f n <= sum_to g n.
Proof.
  induction n as [|n IH]; intro less; cbn; [lra|].
  specialize (IH ltac:(intros; apply less; lia)). specialize (less (S n) ltac:(lia)). lra.
Qed.

Lemma sum_to_scale k f n : sum_to (fun j => k * f j) n = k * sum_to f n.
Proof. induction n as [|n IH]; cbn; [ring|]. rewrite IH. ring. Qed.

Lemma sum_to_const k n : sum_to (fun _ => k) n = INR n * k.
Proof. induction n as [|n IH]; [cbn; ring|]. cbn [sum_to]. rewrite IH, S_INR. ring. Qed.

Lemma sum_to_split i f n : (1 <= i <= n)%nat -> sum_to f n = f i + sum_except i f n.
Proof.
  unfold sum_except. induction n as [|n IH]; intro range; [lia|]. cbn [sum_to].
  destruct (Nat.eqb_spec (S n) i) as [<-|other].
  - rewrite Rplus_0_r, Rplus_comm. f_equal. apply sum_to_ext. intros j inside.
    destruct (Nat.eqb_spec j (S n)); [lia | reflexivity].
  - rewrite IH by lia. ring.
Qed.

Section Places.
Context {T : Type}.
Implicit Types (f g : list T -> T -> R) (start keys : list T).

Lemma places_app f start keys later :
  sum_over_places f start (keys ++ later) = sum_over_places f start keys + sum_over_places f (start ++ keys) later.
Proof.
  revert start. induction keys as [|x keys IH]; intro start; cbn; [rewrite app_nil_r; ring|].
  rewrite IH, <- app_assoc. cbn. ring.
Qed.

Lemma places_zero f start keys : (forall before x, In x keys -> f before x = 0) -> sum_over_places f start keys = 0.
Proof.
  revert start. induction keys as [|x keys IH]; intros start zero; cbn; [reflexivity|].
  rewrite (zero start x) by now left. rewrite IH; [ring|]. intros. apply zero. now right.
Qed.

Lemma places_scale k f start keys :
  sum_over_places (fun before x => k * f before x) start keys = k * sum_over_places f start keys.
Proof. revert start. induction keys as [|x keys IH]; intro start; cbn; [ring|]. rewrite IH. ring. Qed.

Lemma places_ext f g start keys :
  (forall before x, f before x = g before x) -> sum_over_places f start keys = sum_over_places g start keys.
Proof.
  intro same. revert start. induction keys as [|x keys IH]; intro start; cbn; [reflexivity|]. now rewrite same, IH.
Qed.

Lemma places_positive f start keys :
  (forall before x, 0 < f before x) -> keys <> [] -> 0 < sum_over_places f start keys.
Proof.
  intro pos.
  assert (nonneg : forall keys' start', 0 <= sum_over_places f start' keys').
  { induction keys' as [|x keys' IH]; intro start'; cbn; [lra|].
    specialize (pos start' x). specialize (IH (start' ++ [x])). lra. }
  destruct keys as [|x keys]; [congruence|]. intros _. cbn.
  specialize (pos start x). specialize (nonneg keys (start ++ [x])). lra.
Qed.

(** The symbols of a string, by their numbers. *)
Lemma places_symbols (tok : bool -> T) f start (s : list bool) :
  sum_over_places f start (map tok s) =
  sum_to (fun j => f (start ++ map tok (firstn (j - 1) s)) (tok (symbol s j))) (length s).
Proof.
  induction s as [|y s IH] using rev_ind; [reflexivity|].
  rewrite map_app, places_app, app_length, Nat.add_1_r. cbn [map sum_over_places sum_to length].
  rewrite IH. unfold symbol. f_equal.
  - apply sum_to_ext. intros j range. rewrite firstn_app, app_nth1 by lia.
    replace (j - 1 - length s)%nat with 0%nat by lia. cbn. now rewrite app_nil_r.
  - rewrite Rplus_0_r. cbn [Nat.sub]. rewrite Nat.sub_0_r, firstn_app, firstn_all, Nat.sub_diag.
    rewrite app_nth2 by lia. rewrite Nat.sub_diag. cbn. now rewrite app_nil_r.
Qed.

End Places.

(** ** Facts about single steps *)

Lemma exp_le x y : x <= y -> exp x <= exp y.
Proof. intros [less|<-]; [apply Rlt_le; now apply exp_increasing | apply Rle_refl]. Qed.

Lemma sign_square y : sign y * sign y = 1.
Proof. destruct y; cbn; ring. Qed.

Lemma sign_other y y' : y' <> y -> sign y * sign y' = -1.
Proof. destruct y, y'; cbn; intro other; try (now contradiction other); ring. Qed.

Lemma sign_bound y y' k : 0 <= k -> - k <= k * (sign y * sign y') <= k.
Proof. destruct y, y'; cbn; lra. Qed.

Section Criterion.
Context {T : Type}.
Variable tok : bool -> T.
Variables A B : list T.
Variable m : readout T.

(** Scores of s_j in the prompt, and of the j-th symbol written, at step i. *)
Definition source_score (s : list bool) (i j : nat) : R :=
  key_score m (seen tok A B s i) (A ++ map tok (firstn (j - 1) s)) (tok (symbol s j)).

Definition output_score (s : list bool) (i j : nat) : R :=
  key_score m (seen tok A B s i) (A ++ map tok s ++ B ++ map tok (firstn (j - 1) s)) (tok (symbol s j)).

Lemma probabilities_add_up l : output_probability m l false + output_probability m l true = 1.
Proof.
  unfold output_probability.
  pose proof (exp_pos (output_logit m l false)). pose proof (exp_pos (output_logit m l true)). field. lra.
Qed.

(** The symbols 0 and 1 have opposite votes, the tokens of A and B none, and a normalisation keeps signs. *)
Definition opposite_votes : Prop :=
  (exists v, 0 < v /\ forall y, vote m (tok y) = v * sign y) /\
  (forall x, In x (A ++ B) -> vote m x = 0) /\
  (forall o, (0 < after m o <-> 0 < o) /\ (after m o < 0 <-> o < 0)).

Context (votes : opposite_votes).

Lemma right_at_sign (s : list bool) (i : nat) :
  right_at tok A B (output_probability m) s i <-> 0 < sign (symbol s i) * head_output m (seen tok A B s i).
Proof.
  unfold right_at, output_probability. destruct votes as (_ & _ & keeps).
  destruct (keeps (head_output m (seen tok A B s i))) as [keeps_pos keeps_neg].
  set (l := seen tok A B s i) in *. unfold output_logit.
  assert (half : forall p q, 0 < p -> 0 < q -> (p / (p + q) > 1 / 2 <-> q < p)).
  { intros p q pos_p pos_q. assert (E : p / (p + q) - 1 / 2 = (p - q) * / (2 * (p + q))) by (field; lra).
    assert (pos : 0 < / (2 * (p + q))) by (apply Rinv_0_lt_compat; lra). split; intro H.
    - destruct (Rlt_dec q p) as [|no]; [assumption|].
      assert (0 <= (q - p) * / (2 * (p + q))) by (apply Rmult_le_pos; lra). lra.
    - assert (0 < (p - q) * / (2 * (p + q))) by (apply Rmult_lt_0_compat; lra). lra. }
  assert (compare : forall p q, exp p < exp q <-> p < q) by (split; [apply exp_lt_inv | apply exp_increasing]).
  destruct (symbol s i); cbn [sign].
  - rewrite (Rplus_comm (exp (1 * _))), half, compare by apply exp_pos. lra.
  - rewrite half, compare by apply exp_pos. lra.
Qed.

(** The sign of the head's output is that of 1 plus the wrong keys' weights, each with the sign of its agreement. *)
Definition agreement (s : list bool) (i j : nat) : R := sign (symbol s i) * sign (symbol s j).

Definition balance (s : list bool) (i : nat) : R :=
  1 + sum_except i (fun j => exp (source_score s i j - source_score s i i) * agreement s i j) (length s)
  + sum_to (fun j => exp (output_score s i j - source_score s i i) * agreement s i j) (i - 1).

Lemma head_output_sign (s : list bool) (i : nat) :
  (1 <= i <= length s)%nat ->
  exists k, 0 < k /\ sign (symbol s i) * head_output m (seen tok A B s i) = k * balance s i.
Proof.
  intro range. destruct votes as ((v & v_pos & v_tok) & silent & _).
  unfold head_output, weight. set (l := seen tok A B s i).
  pose (Z := sum_over_places (fun before x => exp (key_score m l before x)) [] l). fold Z.
  assert (Z_pos : 0 < Z).
  { apply places_positive; [intros; apply exp_pos|]. apply (seen_nonempty tok A B s i range). }
  exists (v * exp (source_score s i i) / Z). split.
  { apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; [assumption | apply exp_pos] | now apply Rinv_0_lt_compat]. }
  rewrite (places_ext _ (fun before x => / Z * (exp (key_score m l before x) * vote m x)))
    by (intros; field; lra).
  rewrite places_scale.
  set (g := fun before x => exp (key_score m l before x) * vote m x).
  assert (parts : sum_over_places g [] l =
    sum_to (fun j => v * (exp (source_score s i j) * sign (symbol s j))) (length s) +
    sum_to (fun j => v * (exp (output_score s i j) * sign (symbol s j))) (i - 1)).
  { unfold l, seen. rewrite !places_app. cbn [app].
    assert (none : forall start l', (forall x, In x l' -> In x (A ++ B)) -> sum_over_places g start l' = 0).
    { intros start l' inside. apply places_zero. intros before x here. unfold g.
      rewrite silent by now apply inside. ring. }
    rewrite (none [] A), (none (A ++ map tok s) B) by (intros; apply in_or_app; auto).
    rewrite !places_symbols, firstn_length, Nat.min_l by lia.
    rewrite Rplus_0_l, Rplus_0_l. f_equal; apply sum_to_ext; intros j inside; unfold g, source_score, output_score;
      fold (seen tok A B s i).
    - rewrite v_tok. fold l. ring.
    - assert (same : symbol (firstn (i - 1) s) j = symbol s j).
      { unfold symbol. rewrite <- (firstn_skipn (i - 1) s) at 2. rewrite app_nth1; [reflexivity|].
        rewrite firstn_length. lia. }
      rewrite same, v_tok, firstn_firstn, Nat.min_l by lia. fold l. rewrite <- !app_assoc. ring. }
  rewrite parts, !sum_to_scale, (sum_to_split i _ (length s) range).
  unfold balance, agreement, sum_except.
  assert (factor : forall score n, sum_to (fun j => exp (score j - source_score s i i) * (sign (symbol s i) *
    sign (symbol s j))) n =
     / exp (source_score s i i) * sign (symbol s i) * sum_to (fun j => exp (score j) * sign (symbol s j)) n).
  { intros score n. rewrite <- sum_to_scale. apply sum_to_ext. intros j _. unfold Rminus.
    rewrite exp_plus, exp_Ropp. ring. }
  assert (factor_except : forall score n,
    sum_to (fun j => if j =? i then 0 else exp (score j - source_score s i i) * (sign (symbol s i) *
      sign (symbol s j))) n =
     / exp (source_score s i i) * sign (symbol s i) * sum_to (fun j => if j =? i then 0 else exp (score j) *
       sign (symbol s j)) n).
  { intros score n. rewrite <- sum_to_scale. apply sum_to_ext. intros j _. destruct (j =? i)%nat; [ring|].
    unfold Rminus. rewrite exp_plus, exp_Ropp. ring. }
  rewrite (factor (output_score s i)), (factor_except (source_score s i)).
  pose proof (exp_pos (source_score s i i)). pose proof (sign_square (symbol s i)) as square.
  transitivity (v * / Z * (exp (source_score s i i) * (sign (symbol s i) * sign (symbol s i)) +
    sign (symbol s i) * sum_to (fun j => if (j =? i)%nat then 0 else exp (source_score s i j) *
      sign (symbol s j)) (length s)
    + sign (symbol s i) * sum_to (fun j => exp (output_score s i j) * sign (symbol s j)) (i - 1))); [ring|].
  rewrite square. field. lra.
Qed.

Lemma right_at_balance (s : list bool) (i : nat) :
  (1 <= i <= length s)%nat -> (right_at tok A B (output_probability m) s i <-> 0 < balance s i).
Proof.
  intro range. rewrite right_at_sign. destruct (head_output_sign s i range) as (k & pos & ->). split; intro positive.
  - apply (Rmult_lt_reg_l k); [assumption|]. lra.
  - now apply Rmult_lt_0_compat.
Qed.

(** ** Enough: the wrong keys weigh less than the right one

    The scores may be any, and may depend on the string. *)
Theorem right_if_wrong_weight_small (s : list bool) (i : nat) :
  (1 <= i <= length s)%nat -> wrong_weight (source_score s i) (output_score s i) (length s) i < 1 ->
  right_at tok A B (output_probability m) s i.
Proof.
  intros range small. apply right_at_balance; [assumption|]. unfold balance, wrong_weight, sum_except in *.
  set (p := fun j => exp (output_score s i j - source_score s i i)) in *.
  set (q := fun j => if (j =? i)%nat then 0 else exp (source_score s i j - source_score s i i)) in *.
  assert (outputs : -1 * sum_to p (i - 1) <= sum_to (fun j =>
    exp (output_score s i j - source_score s i i) * agreement s i j) (i - 1)).
  { rewrite <- sum_to_scale. apply sum_to_le. intros j _. unfold p, agreement.
    pose proof (sign_bound (symbol s i) (symbol s j) _ (Rlt_le _ _ (exp_pos (output_score s i j - source_score s i
      i)))).
    lra. }
  assert (sources : -1 * sum_to q (length s) <= sum_to (fun j => if (j =? i)%nat then 0 else
    exp (source_score s i j - source_score s i i) * agreement s i j) (length s)).
  { rewrite <- sum_to_scale. apply sum_to_le. intros j _. unfold q, agreement. destruct (j =? i)%nat; [lra|].
    pose proof (sign_bound (symbol s i) (symbol s j) _ (Rlt_le _ _ (exp_pos (source_score s i j - source_score s i
      i)))).
    lra. }
  lra.
Qed.

(** A crude form (paper): n + i - 2 wrong keys that all lie below the right one by a gap. *)
Theorem right_if_gap (s : list bool) (i : nat) (gap : R) :
  (1 <= i <= length s)%nat ->
  (forall j, (1 <= j <= length s)%nat -> j <> i -> source_score s i j <= source_score s i i - gap) ->
  (forall j, (1 <= j < i)%nat -> output_score s i j <= source_score s i i - gap) ->
  INR (length s + i - 2) * exp (- gap) < 1 ->
  right_at tok A B (output_probability m) s i.
Proof.
  intros range sources outputs few. apply right_if_wrong_weight_small; [assumption|].
  unfold wrong_weight.
  assert (below : forall x y, x <= y - gap -> exp (x - y) <= exp (- gap)).
  { intros x y less. apply exp_le. lra. }
  assert (first : sum_except i (fun j => exp (source_score s i j - source_score s i i)) (length s) <=
    INR (length s - 1) * exp (- gap)).
  { pose proof (sum_to_split i (fun _ => exp (- gap)) (length s) range) as split.
    rewrite sum_to_const in split. rewrite minus_INR by lia. cbn [INR].
    apply Rle_trans with (sum_except i (fun _ => exp (- gap)) (length s)); [|lra].
    apply sum_to_le. intros j inside. destruct (Nat.eqb_spec j i); [lra|]. auto. }
  assert (second : sum_to (fun j => exp (output_score s i j - source_score s i i)) (i - 1) <=
    INR (i - 1) * exp (- gap)).
  { rewrite <- sum_to_const. apply sum_to_le. intros j inside. apply below, outputs. lia. }
  replace (length s + i - 2)%nat with (length s - 1 + (i - 1))%nat in few by lia.
  rewrite plus_INR in few. lra.
Qed.

(** ** Exact, where the scores do not depend on the string: the worst string is constant but for s_i *)

Variables source output : nat -> nat -> nat -> R.
Context (source_blind : forall s i j, (1 <= i <= length s)%nat -> (1 <= j <= length s)%nat ->
  source_score s i j = source (length s) i j).
Context (output_blind : forall s i j, (1 <= i <= length s)%nat -> (1 <= j < i)%nat ->
  output_score s i j = output (length s) i j).

Lemma wrong_weight_blind (s : list bool) (i : nat) :
  (1 <= i <= length s)%nat ->
  wrong_weight (source_score s i) (output_score s i) (length s) i =
  wrong_weight (source (length s) i) (output (length s) i) (length s) i.
Proof.
  intro range. unfold wrong_weight, sum_except. f_equal; apply sum_to_ext; intros j inside.
  - destruct (j =? i)%nat; [reflexivity|]. rewrite !source_blind by lia. reflexivity.
  - rewrite output_blind, source_blind by lia. reflexivity.
Qed.

Lemma flip_length n i y : length (flip n i y) = n.
Proof. unfold flip. now rewrite map_length, seq_length. Qed.

Lemma flip_symbol n i y j : (1 <= j <= n)%nat -> symbol (flip n i y) j = if j =? i then y else negb y.
Proof.
  intro range. unfold symbol, flip.
  set (f := fun j' => if j' =? i then y else negb y).
  rewrite (nth_indep _ false (f 0%nat)) by (rewrite map_length, seq_length; lia).
  rewrite (map_nth f), seq_nth by lia. unfold f. now replace (1 + (j - 1))%nat with j by lia.
Qed.

Theorem flip_right_iff (n i : nat) (y : bool) :
  (1 <= i <= n)%nat ->
  (right_at tok A B (output_probability m) (flip n i y) i <-> wrong_weight (source n i) (output n i) n i < 1).
Proof.
  intro range. pose proof (flip_length n i y) as len.
  assert (range' : (1 <= i <= length (flip n i y))%nat) by now rewrite len.
  pose proof (wrong_weight_blind _ _ range') as blind. rewrite len in blind.
  rewrite <- blind, right_at_balance by assumption.
  assert (disagree : forall j, (1 <= j <= n)%nat -> j <> i -> agreement (flip n i y) i j = -1).
  { intros j inside other. unfold agreement. rewrite !flip_symbol by lia. rewrite Nat.eqb_refl.
    apply Nat.eqb_neq in other. rewrite other. apply sign_other. now destruct y. }
  assert (value : balance (flip n i y) i =
    1 - wrong_weight (source_score (flip n i y) i) (output_score (flip n i y) i) n i).
  { unfold balance, wrong_weight, sum_except. rewrite len.
    transitivity (1 + (-1 * sum_to (fun j => if j =? i then 0 else
       exp (source_score (flip n i y) i j - source_score (flip n i y) i i)) n) +
       -1 * sum_to (fun j => exp (output_score (flip n i y) i j - source_score (flip n i y) i i)) (i - 1)); [|ring].
    rewrite <- !sum_to_scale. f_equal; [f_equal|]; apply sum_to_ext; intros j inside.
    - destruct (Nat.eqb_spec j i); [ring|]. rewrite disagree by assumption. ring.
    - rewrite disagree by lia. ring. }
  rewrite value. split; lra.
Qed.

(** All 2^n strings of length n are copied iff the wrong keys weigh less than the right one at each of the n steps
    (new as an equivalence). *)
Theorem all_copied_iff (n : nat) :
  (forall s, length s = n -> copied tok A B (output_probability m) s) <->
  (forall i, (1 <= i <= n)%nat -> wrong_weight (source n i) (output n i) n i < 1).
Proof.
  split.
  - intros all i range. apply (flip_right_iff n i false range). apply all; rewrite flip_length; auto.
  - intros small s len i range. apply right_if_wrong_weight_small; [assumption|].
    rewrite wrong_weight_blind by assumption. rewrite len in *. auto.
Qed.

End Criterion.

(** ** From single steps to generation

    Each step was judged with the right symbols written before it; greedy generation writes them itself. *)
Theorem generation_is_exact {T} (tok : bool -> T) (A B : list T) (p : list T -> bool -> R) (s : list bool) :
  (forall l, p l false + p l true = 1) ->
  copied tok A B p s -> generate tok p (A ++ map tok s ++ B) (length s) = s.
Proof.
  intros one right.
  assert (prefix : forall k, (k <= length s)%nat -> generate tok p (A ++ map tok s ++ B) k = firstn k s).
  { induction k as [|k IH]; intro range; [reflexivity|]. cbn [generate]. rewrite IH by lia.
    specialize (right (S k) ltac:(lia)). unfold right_at, seen in right. cbn [Nat.sub] in right.
    rewrite Nat.sub_0_r in right. rewrite <- !app_assoc.
    assert (last_symbol : firstn (S k) s = firstn k s ++ [symbol s (S k)]).
    { unfold symbol. cbn [Nat.sub]. rewrite Nat.sub_0_r. assert (short : (k < length s)%nat) by lia.
      clear - short. revert k short. induction s as [|y s IH]; cbn; intros k short; [lia|].
      destruct k as [|k]; cbn; [reflexivity|]. f_equal. apply IH. lia. }
    rewrite last_symbol. do 2 f_equal. unfold likelier.
    set (l := A ++ map tok s ++ B ++ map tok (firstn k s)) in *. specialize (one l).
    destruct (Rlt_dec (p l false) (p l true)); destruct (symbol s (S k)); lra || reflexivity. }
  rewrite prefix by lia. apply firstn_all.
Qed.
