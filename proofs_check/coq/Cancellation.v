(** * The cases cancel

    A numerator is split into the contributions of A, of the string, of B and of the symbols written so far.  For a
    fixed query token the contribution of A depends only on n + i and that of B only on i, because they depend on
    how many tokens come after A and after B.  Both are left as they are: the cases are chosen so that they cancel. *)

From Coq Require Import Reals List Lra Lia Arith Bool.
From Copy Require Import Model Cases.
Import ListNotations.
Open Scope R_scope.

Section Cancellation.
Context {T : Type}.
Variable tok : bool -> T.
Variables A B : list T.
Variable vote : T -> T -> nat -> R.

(** ** The four contributions at step i of a string of length n, for query token c *)

(** Tokens after A: the n of the string, those of B, the i-1 written. *)
Definition from_A (c : T) (n_plus_i : nat) : R :=
  sum_over_keys (fun x r => vote c x (r + (n_plus_i - 1 + length B)))%nat A.

Definition from_string (c : T) (s : list bool) (i : nat) : R :=
  sum_over_keys (fun x r => vote c x (r + (i - 1 + length B)))%nat (map tok s).

Definition from_B (c : T) (i : nat) : R :=
  sum_over_keys (fun x r => vote c x (r + (i - 1)))%nat B.

Definition from_written (c : T) (s : list bool) (i : nat) : R :=
  sum_over_keys (vote c) (map tok (firstn (i - 1) s)).

Definition numerator_by_parts (s : list bool) (i : nat) : R :=
  let c := tok (symbol s (i - 1)) in
  sign (symbol s i) *
    (from_A c (length s + i) + from_string c s i + from_B c i + from_written c s i).

(** From step 2 on the query token is the symbol written last. *)
Lemma query_is_last_written (s : list bool) (i : nat) :
  (2 <= i <= length s)%nat -> query tok A B s i = tok (symbol s (i - 1)).
Proof.
  intro range. unfold query, seen, symbol.
  assert (split : firstn (i - 1) s = firstn (i - 2) s ++ [nth (i - 2) s false]).
  { assert (len : (i - 2 < length s)%nat) by lia. replace (i - 1)%nat with (S (i - 2)) by lia.
    revert len. generalize (i - 2)%nat as k. clear range.
    induction s as [|y s IH]; cbn; intros k len; [lia|].
    destruct k as [|k]; cbn; [reflexivity|]. f_equal. apply IH. lia. }
  rewrite split, map_app, !app_assoc. cbn. rewrite last_last.
  do 2 f_equal. lia.
Qed.

Lemma numerator_parts (s : list bool) (i : nat) :
  (2 <= i <= length s)%nat -> numerator tok A B vote s i = numerator_by_parts s i.
Proof.
  intro range. unfold numerator, numerator_by_parts. rewrite query_is_last_written by exact range.
  set (c := tok (symbol s (i - 1))). f_equal.
  unfold seen, from_A, from_string, from_B, from_written. rewrite !sum_app, !app_length, !map_length.
  rewrite firstn_length_le by lia.
  rewrite !Rplus_assoc.
  do 3 (apply f_equal2; [apply sum_ext; intros; f_equal; lia|]). reflexivity.
Qed.

(** ** Adding up cases *)

Fixpoint total (cases : list (list bool * nat * nat)) : R :=
  match cases with
  | [] => 0
  | (s, i, k) :: rest => INR k * numerator tok A B vote s i + total rest
  end.

Fixpoint total_by_parts (cases : list (list bool * nat * nat)) : R :=
  match cases with
  | [] => 0
  | (s, i, k) :: rest => INR k * numerator_by_parts s i + total_by_parts rest
  end.

(** At least one case; no string longer than [max_length]; steps from 2 to the length; multipliers at least 1. *)
Definition usable (max_length : nat) (cases : list (list bool * nat * nat)) : bool :=
  negb (length cases =? 0)%nat &&
  forallb (fun '(s, i, k) =>
    (length s <=? max_length) && (2 <=? i) && (i <=? length s) && (1 <=? k))%nat cases.

Lemma usable_case (max_length : nat) (s : list bool) (i k : nat) :
  ((length s <=? max_length) && (2 <=? i) && (i <=? length s) && (1 <=? k))%nat = true ->
  (length s <= max_length /\ 2 <= i <= length s /\ 1 <= k)%nat.
Proof. rewrite !andb_true_iff, !Nat.leb_le. tauto. Qed.

Lemma total_parts (max_length : nat) (cases : list (list bool * nat * nat)) :
  usable max_length cases = true -> total cases = total_by_parts cases.
Proof.
  unfold usable. rewrite andb_true_iff. intros [_ good]. revert good.
  induction cases as [|[[s i] k] rest IH]; cbn [forallb total total_by_parts]; [reflexivity|].
  rewrite andb_true_iff. intros [here there]. apply usable_case in here.
  now rewrite numerator_parts, IH by tauto.
Qed.

Lemma total_positive (max_length : nat) (cases : list (list bool * nat * nat)) :
  usable max_length cases = true -> all_positive tok A B vote max_length -> 0 < total cases.
Proof.
  unfold usable. rewrite andb_true_iff. intros [some good] positive.
  assert (one : forall s i k,
    ((length s <=? max_length) && (2 <=? i) && (i <=? length s) && (1 <=? k))%nat = true ->
    0 < INR k * numerator tok A B vote s i).
  { intros s i k here. apply usable_case in here. apply Rmult_lt_0_compat.
    - apply lt_0_INR. lia.
    - apply positive; lia. }
  assert (nonneg : forall l, forallb (fun '(s, i, k) =>
    (length s <=? max_length) && (2 <=? i) && (i <=? length s) && (1 <=? k))%nat l = true -> 0 <= total l).
  { induction l as [|[[s i] k] rest IH]; cbn [forallb total]; [lra|].
    rewrite andb_true_iff. intros [here there]. specialize (one s i k here). specialize (IH there). lra. }
  destruct cases as [|[[s i] k] rest]; [discriminate|]. cbn [forallb total] in *.
  apply andb_true_iff in good as [here there]. specialize (one s i k here). specialize (nonneg rest there). lra.
Qed.

(** ** What each list of cases adds up to *)

Ltac add_up cases :=
  rewrite (total_parts 6 cases) by reflexivity;
  unfold cases; cbn [total_by_parts];
  unfold numerator_by_parts, from_string, from_written, symbol;
  cbn [bits Ascii.eqb Bool.eqb nth length firstn map sum_over_keys sign Nat.add Nat.sub INR].

Lemma total_any : total cases_any = 0.
Proof. add_up cases_any. ring. Qed.

Lemma total_opposite :
  total cases_opposite = vote (tok false) (tok true) 1 - vote (tok false) (tok false) 1.
Proof. add_up cases_opposite. ring. Qed.

Lemma total_reversed :
  total cases_reversed =
  vote (tok false) (tok false) (1 + length B) - vote (tok false) (tok true) (1 + length B).
Proof. add_up cases_reversed. ring. Qed.

Lemma total_one_token : length B = 1%nat -> total cases_one_token = 0.
Proof. intro b1. add_up cases_one_token. rewrite b1. ring. Qed.

End Cancellation.
