(** * Length 5 is attained (new)

    A softmax model with A = A1 A2 and B = B1 B2, without a residual, that copies every binary string of length at
    most 5.  The tokens 0 and 1 both vote for output 0, every other token votes for output 1, with equal strength; the
    model tells the strings apart by the attention weights alone.  So the 6 of theorem [length_six] can't be lowered
    to 5, and neither the condition on signs of theorem 2 nor the single token of theorem 3 can be dropped.  It also
    shows that [copies_all] asks for something that models can do.

    Its scores are a table, as the definition of the model allows; that a particular encoding such as RoPE can produce
    them is not shown here.  The model was found by linear programming; here it is only checked, in integers. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Copy Require Import Model.
Import ListNotations.

Inductive token := zero | one | a1 | a2 | b1 | b2.

Definition tok (y : bool) : token := if y then one else zero.

(** exp(score), up to the common factor that softmax removes: one list for each query token and key token, indexed by
    the shift.  1 stands also for shifts that never occur; beyond the end of a list the weight is 1. *)
Definition weights (c x : token) : list positive :=
  match c, x with
  | zero, zero => [64; 17; 3; 8; 13; 34; 55; 50; 44; 8; 3]
  | zero, one => [1; 64; 18; 3; 3; 3; 3; 3; 3; 3; 3]
  | zero, a1 => [1; 1; 1; 1; 1; 1; 3; 31; 64; 64; 61; 64; 64]
  | zero, a2 => [1; 1; 1; 1; 1; 3; 3; 4; 33; 64; 64; 64]
  | zero, b1 => [1; 1; 13; 43; 48; 64]
  | zero, b2 => [1; 64; 64; 64; 51]
  | one, zero => [1; 3; 3; 10; 40; 37; 64; 64; 57; 30; 3]
  | one, one => [64; 64; 30; 3; 27; 3; 3; 3; 3; 3; 3]
  | one, a1 => [1; 1; 1; 1; 1; 1; 3; 37; 61; 64; 54; 64; 37]
  | one, a2 => [1; 1; 1; 1; 1; 27; 3; 3; 30; 64; 64; 64]
  | one, b1 => [1; 1; 3; 37; 20; 64]
  | one, b2 => [1; 64; 64; 64; 64]
  | b2, zero => [1; 1; 64; 14; 17; 33; 64]
  | b2, one => [1; 1; 60; 6; 2; 2; 2]
  | b2, a1 => [1; 1; 1; 1; 2; 64; 14; 64; 64]
  | b2, a2 => [1; 1; 1; 56; 4; 64; 31; 64]
  | b2, b1 => [1; 2]
  | b2, b2 => [2]
  | _, _ => []
  end%positive.

Definition weight (c x : token) (r : nat) : positive := nth r (weights c x) 1%positive.

Definition votes_for_0 (x : token) : bool :=
  match x with zero | one => true | _ => false end.

Definition witness : model token := {|
  score := fun c x r => ln (IZR (Zpos (weight c x r)));
  value := fun x y => if Bool.eqb (votes_for_0 x) y then 0%R else 1%R;
  residual := fun _ _ => 0%R
|}.

(** ** The numerators, in integers *)

Definition vote (c x : token) (r : nat) : Z :=
  if votes_for_0 x then Zpos (weight c x r) else Zneg (weight c x r).

Fixpoint sum_integers (f : token -> nat -> Z) (l : list token) : Z :=
  match l with
  | [] => 0
  | x :: later => f x (length later) + sum_integers f later
  end.

Definition step_positive (s : list bool) (i : nat) : bool :=
  let total := sum_integers (vote (query tok [a1; a2] [b1; b2] s i)) (seen tok [a1; a2] [b1; b2] s i) in
  (0 <? (if symbol s i then - total else total))%Z.

Fixpoint strings (n : nat) : list (list bool) :=
  match n with
  | O => [[]]
  | S k => map (cons false) (strings k) ++ map (cons true) (strings k)
  end.

Definition everything_positive (max_length : nat) : bool :=
  forallb (fun n => forallb (fun s => forallb (step_positive s) (seq 1 n)) (strings n)) (seq 0 (S max_length)).

(** The 258 steps of the 62 strings of length 1 to 5. *)
Lemma computed : everything_positive 5 = true.
Proof. vm_compute. reflexivity. Qed.

(** ** From integers to the model *)

Lemma strings_complete (s : list bool) : In s (strings (length s)).
Proof.
  induction s as [|y s IH]; cbn; [auto|]. apply in_or_app.
  destruct y; [right | left]; now apply in_map.
Qed.

Lemma witness_votes (c x : token) (r : nat) : votes_of witness c x r = IZR (vote c x r).
Proof.
  unfold votes_of, preference, vote. cbn [score value residual witness].
  rewrite exp_ln by (apply IZR_lt; reflexivity).
  change (Zneg (weight c x r)) with (- Zpos (weight c x r))%Z.
  destruct (votes_for_0 x); cbn [Bool.eqb]; rewrite ?opp_IZR; ring.
Qed.

Lemma sum_of_integers (c : token) (l : list token) :
  sum_over_keys (votes_of witness c) l = IZR (sum_integers (vote c) l).
Proof.
  induction l as [|x l IH]; cbn; [reflexivity|]. now rewrite witness_votes, IH, plus_IZR.
Qed.

(** Two tokens before the string, two after it, four different ones: all strings of length at most 5 are copied. *)
Theorem length_five_attained : copies_all tok [a1; a2] [b1; b2] witness 5.
Proof.
  apply copies_all_iff. intros s i short range.
  pose proof computed as all. unfold everything_positive in all.
  rewrite forallb_forall in all. specialize (all (length s)).
  rewrite forallb_forall in all. specialize (all ltac:(apply in_seq; lia) s (strings_complete s)).
  rewrite forallb_forall in all. specialize (all i ltac:(apply in_seq; lia)).
  unfold step_positive in all. apply Z.ltb_lt, IZR_lt in all.
  unfold numerator. rewrite sum_of_integers.
  destruct (symbol s i); cbn [sign]; [rewrite opp_IZR in all|]; lra.
Qed.
