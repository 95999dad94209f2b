(** * One softmax-attention layer that is asked to copy a binary string

    The model, the task, and the one fact about softmax that is needed: the probability of the right symbol is
    above 1/2 iff a sum over the tokens seen is positive.

    The prompt is  A_1 .. A_a  s_1 .. s_n  B_1 .. B_b.  The model then has to write  s_1 .. s_n.  At step i
    (counted from 1) it sees the prompt and the i-1 symbols already written.

    Reading guide.  [R] are the real numbers, [nat] the natural numbers, [bool] the two symbols: [false] is the
    symbol 0 and [true] the symbol 1.  [T] is the type of tokens, which may be any type at all, and [tok] says which
    token stands for which symbol. *)

From Coq Require Import Reals List Lra Lia.
Import ListNotations.
Open Scope R_scope.

(** ** Sums over the tokens seen

    [sum_over_keys f seen] is the sum of [f x r] over all tokens x in the list [seen]; r is the number of tokens that
    come after x, that is, the position of the last token minus the position of x: the shift. *)

Fixpoint sum_over_keys {T : Type} (f : T -> nat -> R) (seen : list T) : R :=
  match seen with
  | [] => 0
  | x :: later => f x (length later) + sum_over_keys f later
  end.

(** ** The model

    [score c x r]   attention score (any real) of a key token x at shift r, seen from the query token c.  That it
                    depends on positions through r alone is what "shift-invariant" means: RoPE, ALiBi, NoPE and any
                    relative bias are of this form, as are token embeddings of any dimension.
    [value x y]     what the value of token x, after the linear read-out, adds to the logit of output y.
    [residual c y]  what the query token itself adds to that logit: a residual connection.  It is 0 everywhere in a
                    model without one. *)

Record model (T : Type) := {
  score : T -> T -> nat -> R;
  value : T -> bool -> R;
  residual : T -> bool -> R
}.
Arguments score {T} _ _ _ _.
Arguments value {T} _ _ _.
Arguments residual {T} _ _ _.

Section Softmax.
Context {T : Type}.
Variable m : model T.

(** Attention weight of key x at shift r: the softmax, over all tokens seen, of the scores from query token c. *)
Definition attention (c : T) (seen : list T) (x : T) (r : nat) : R :=
  exp (score m c x r) / sum_over_keys (fun x' r' => exp (score m c x' r')) seen.

Definition logit (c : T) (seen : list T) (y : bool) : R :=
  residual m c y + sum_over_keys (fun x r => attention c seen x r * value m x y) seen.

(** Probability of output y: the softmax of the two logits. *)
Definition probability (c : T) (seen : list T) (y : bool) : R :=
  exp (logit c seen y) / (exp (logit c seen false) + exp (logit c seen true)).

End Softmax.

(** ** The task *)

Section Task.
Context {T : Type}.
Variable tok : bool -> T.
Variables A B : list T.

Definition seen (s : list bool) (i : nat) : list T :=
  A ++ map tok s ++ B ++ map tok (firstn (i - 1) s).

(** s_i *)
Definition symbol (s : list bool) (i : nat) : bool := nth (i - 1) s false.

(** The query token is the last token seen.  ([last] wants a default for the empty list, which never occurs here.) *)
Definition query (s : list bool) (i : nat) : T := last (seen s i) (tok false).

Definition step_right (m : model T) (s : list bool) (i : nat) : Prop :=
  probability m (query s i) (seen s i) (symbol s i) > 1 / 2.

Definition copies (m : model T) (s : list bool) : Prop :=
  forall i, (1 <= i <= length s)%nat -> step_right m s i.

Definition copies_all (m : model T) (max_length : nat) : Prop :=
  forall s, (length s <= max_length)%nat -> copies m s.

(** ** Votes

    Softmax plays no part in what follows, so let [vote c x r] be any function: what a key x at shift r, seen from
    query token c, contributes in favour of output 0 (against it, if negative).  [numerator s i] is the sum of the
    votes at step i in favour of s_i. *)

Definition sign (y : bool) : R := if y then -1 else 1.

Definition numerator (vote : T -> T -> nat -> R) (s : list bool) (i : nat) : R :=
  sign (symbol s i) * sum_over_keys (vote (query s i)) (seen s i).

Definition all_positive (vote : T -> T -> nat -> R) (max_length : nat) : Prop :=
  forall s i, (length s <= max_length)%nat -> (1 <= i <= length s)%nat -> 0 < numerator vote s i.

End Task.

(** How much token x, seen from query token c, prefers output 0 to output 1.  Without a residual this is
    u_x[0] - u_x[1], whatever c is. *)
Definition preference {T} (m : model T) (c x : T) : R :=
  (value m x false - value m x true) + (residual m c false - residual m c true).

(** The votes of a softmax model: exp(score) times the preference. *)
Definition votes_of {T} (m : model T) (c x : T) (r : nat) : R :=
  exp (score m c x r) * preference m c x.

(** ** Sums: rules *)

Section Sums.
Context {T : Type}.
Implicit Types (f g : T -> nat -> R) (l : list T).

Lemma sum_ext f g l : (forall x r, f x r = g x r) -> sum_over_keys f l = sum_over_keys g l.
Proof. intro same. induction l as [|x l IH]; cbn; [reflexivity|]. now rewrite same, IH. Qed.

Lemma sum_plus f g l :
  sum_over_keys (fun x r => f x r + g x r) l = sum_over_keys f l + sum_over_keys g l.
Proof. induction l as [|x l IH]; cbn; [ring|]. rewrite IH. ring. Qed.

Lemma sum_scale k f l : sum_over_keys (fun x r => k * f x r) l = k * sum_over_keys f l.
Proof. induction l as [|x l IH]; cbn; [ring|]. rewrite IH. ring. Qed.

Lemma sum_positive f l : (forall x r, 0 < f x r) -> l <> [] -> 0 < sum_over_keys f l.
Proof.
  intro pos. assert (nonneg : forall l', 0 <= sum_over_keys f l').
  { induction l' as [|x l' IH]; cbn; [lra|]. specialize (pos x (length l')). lra. }
  destruct l as [|x l]; [congruence|]. intros _. cbn.
  specialize (pos x (length l)). specialize (nonneg l). lra.
Qed.

(** Tokens appended later move every earlier token further away. *)
Lemma sum_app f l later :
  sum_over_keys f (l ++ later) =
  sum_over_keys (fun x r => f x (r + length later)%nat) l + sum_over_keys f later.
Proof.
  induction l as [|x l IH]; cbn; [ring|]. rewrite IH, app_length. ring.
Qed.

End Sums.

(** ** Probability above 1/2 iff the numerator is positive *)

Section Criterion.
Context {T : Type}.
Variable m : model T.

Lemma probability_half (c : T) (l : list T) (y : bool) :
  probability m c l y > 1 / 2 <-> logit m c l (negb y) < logit m c l y.
Proof.
  unfold probability.
  assert (pos0 := exp_pos (logit m c l false)). assert (pos1 := exp_pos (logit m c l true)).
  assert (half : forall p q, 0 < p + q -> (p / (p + q) > 1 / 2 <-> q < p)).
  { intros p q pos. split; intro H.
    - apply (Rmult_gt_compat_r (p + q)) in H; [|lra].
      unfold Rdiv in H. rewrite Rmult_assoc, Rinv_l in H; lra.
    - apply (Rmult_lt_reg_r (p + q)); [lra|].
      unfold Rdiv. rewrite (Rmult_assoc p), Rinv_l; lra. }
  destruct y; cbn.
  - rewrite Rplus_comm, half by lra. split; [apply exp_lt_inv | apply exp_increasing].
  - rewrite half by lra. split; [apply exp_lt_inv | apply exp_increasing].
Qed.

(** The softmax denominator is positive and the same for every key, and the attention weights add up to 1. *)
Lemma logit_difference (c : T) (l : list T) :
  l <> [] ->
  exists denominator, 0 < denominator /\
    sum_over_keys (votes_of m c) l = denominator * (logit m c l false - logit m c l true).
Proof.
  intro nonempty.
  pose (Z := sum_over_keys (fun x r => exp (score m c x r)) l).
  assert (posZ : 0 < Z) by (apply sum_positive; [intros; apply exp_pos | exact nonempty]).
  assert (scaled : forall y, Z * logit m c l y =
    sum_over_keys (fun x r => exp (score m c x r) * (value m x y + residual m c y)) l).
  { intro y. unfold logit.
    rewrite Rmult_plus_distr_l, <- sum_scale.
    rewrite (sum_ext _ (fun x r => exp (score m c x r) * value m x y)).
    2:{ intros x r. unfold attention. fold Z. field. lra. }
    rewrite (sum_ext (fun x r => exp (score m c x r) * (value m x y + residual m c y))
      (fun x r => residual m c y * exp (score m c x r) + exp (score m c x r) * value m x y))
      by (intros; ring).
    rewrite sum_plus, sum_scale. fold Z. ring. }
  exists Z. split; [exact posZ|].
  rewrite Rmult_minus_distr_l, !scaled. unfold Rminus at 1.
  replace (- sum_over_keys (fun x r => exp (score m c x r) * (value m x true + residual m c true)) l)
    with (-1 * sum_over_keys (fun x r => exp (score m c x r) * (value m x true + residual m c true)) l) by ring.
  rewrite <- sum_scale, <- sum_plus. apply sum_ext.
  intros. unfold votes_of, preference. ring.
Qed.

Variable tok : bool -> T.
Variables A B : list T.

Lemma seen_nonempty (s : list bool) (i : nat) : (1 <= i <= length s)%nat -> seen tok A B s i <> [].
Proof.
  unfold seen. intros H E. apply (f_equal (@length T)) in E.
  rewrite !app_length, !map_length in E. cbn in E. lia.
Qed.

Lemma step_right_iff (s : list bool) (i : nat) :
  (1 <= i <= length s)%nat -> (step_right tok A B m s i <-> 0 < numerator tok A B (votes_of m) s i).
Proof.
  intro range. unfold step_right, numerator. rewrite probability_half.
  destruct (logit_difference (query tok A B s i) _ (seen_nonempty s i range)) as (Z & posZ & ->).
  set (l0 := logit _ _ _ false). set (l1 := logit _ _ _ true).
  destruct (symbol s i); cbn; fold l0 l1; split; intro H.
  - assert (0 < Z * (l1 - l0)) by (apply Rmult_lt_0_compat; lra). lra.
  - destruct (Rlt_dec l0 l1) as [|no]; [assumption|].
    assert (0 <= Z * (l0 - l1)) by (apply Rmult_le_pos; lra). lra.
  - assert (0 < Z * (l0 - l1)) by (apply Rmult_lt_0_compat; lra). lra.
  - destruct (Rlt_dec l1 l0) as [|no]; [assumption|].
    assert (0 <= Z * (l1 - l0)) by (apply Rmult_le_pos; lra). lra.
Qed.

(** A softmax model copies all strings up to a length iff all its numerators are positive. *)
Lemma copies_all_iff (max_length : nat) :
  copies_all tok A B m max_length <-> all_positive tok A B (votes_of m) max_length.
Proof.
  unfold copies_all, copies, all_positive.
  split; intros H s; intros; apply step_right_iff; auto.
Qed.

End Criterion.
