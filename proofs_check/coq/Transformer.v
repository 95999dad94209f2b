(** * A two-layer RoPE transformer, from its weights

    Attention only, a residual stream, one head a layer, the head's output divided by its Euclidean norm before the
    output projection (sub-LN), no other norms, no biases.  The displayed equations of the architecture are missing from
    the paper's text; this is how we read it (reconstructed).

    Every width is d: vectors have the coordinates 0 .. d - 1, and the head's coordinates 2p and 2p + 1 are the rotary
    pair p. *)

From Coq Require Import Reals List Lra Lia Arith.
From Copy Require Import Model Readout.
Import ListNotations.
Open Scope R_scope.

Definition vector := nat -> R.
Definition matrix := nat -> nat -> R.

(** f 0 + .. + f (n-1) *)
Fixpoint sum_below (n : nat) (f : nat -> R) : R :=
  match n with
  | O => 0
  | S k => sum_below k f + f k
  end.

Record layer := {
  queries : matrix;
  keys : matrix;
  values : matrix;
  outputs : matrix
}.

Record parameters (T : Type) := {
  embedding : T -> vector;
  first : layer;
  second : layer;
  readout_weights : bool -> vector
}.
Arguments embedding {T} _ _ _.
Arguments first {T} _.
Arguments second {T} _.
Arguments readout_weights {T} _ _ _.

Section Transformer.
Context {T : Type}.
Variable pairs : nat.
Notation d := (2 * pairs)%nat.

(** Frequencies, in radians a position: one for each rotary pair, the same in both layers. *)
Variable frequency : nat -> R.

Definition times (M : matrix) (v : vector) (row : nat) : R := sum_below d (fun k => M row k * v k).

Definition turned (angle x y : R) : R * R := (x * cos angle - y * sin angle, x * sin angle + y * cos angle).

(** The score of a key at position t_k, query at position t_q: the inner product of the two, each turned by its
    position. *)
Definition rope (q k : vector) (t_q t_k : nat) : R :=
  sum_below pairs (fun p =>
    let q' := turned (frequency p * INR t_q) (q (2 * p)%nat) (q (2 * p + 1)%nat) in
    let k' := turned (frequency p * INR t_k) (k (2 * p)%nat) (k (2 * p + 1)%nat) in
    fst q' * fst k' + snd q' * snd k').

(** [x l] is the residual stream at the last token of l, which sees l. *)
Definition attend (W : layer) (x : list T -> vector) (l : list T) (row : nat) : R :=
  let score before token :=
    rope (times (queries W) (x l)) (times (keys W) (x (before ++ [token]))) (length l - 1) (length before) in
  sum_over_places (fun before token =>
    exp (score before token) / sum_over_places (fun before' token' => exp (score before' token')) [] l *
    times (values W) (x (before ++ [token])) row) [] l.

(** Coq has 0 / 0 = 0: a zero vector stays zero. *)
Definition unit (v : vector) (k : nat) : R := v k / sqrt (sum_below d (fun k' => v k' * v k')).

Definition block (W : layer) (x : list T -> vector) (l : list T) (k : nat) : R :=
  x l k + times (outputs W) (unit (attend W x l)) k.

Variable theta : parameters T.

Definition stream0 (l : list T) (k : nat) : R :=
  match rev l with
  | [] => 0
  | c :: _ => embedding theta c k
  end.
Definition stream1 : list T -> vector := block (first theta) stream0.
Definition stream2 : list T -> vector := block (second theta) stream1.

Definition transformer_logit (l : list T) (y : bool) : R :=
  sum_below d (fun k => readout_weights theta y k * stream2 l k).

Definition transformer_probability (l : list T) (y : bool) : R :=
  exp (transformer_logit l y) / (exp (transformer_logit l false) + exp (transformer_logit l true)).

(** The sum of the squares of all parameters; the embedding has a row for each token of the vocabulary. *)
Definition square_norm_of_vector (v : vector) : R := sum_below d (fun k => v k * v k).
Definition square_norm_of_matrix (M : matrix) : R := sum_below d (fun row => square_norm_of_vector (M row)).
Definition square_norm_of_layer (W : layer) : R :=
  square_norm_of_matrix (queries W) + square_norm_of_matrix (keys W) +
  square_norm_of_matrix (values W) + square_norm_of_matrix (outputs W).
Definition square_norm (vocabulary : list T) : R :=
  fold_right (fun x total => square_norm_of_vector (embedding theta x) + total) 0 vocabulary +
  square_norm_of_layer (first theta) + square_norm_of_layer (second theta) +
  square_norm_of_vector (readout_weights theta false) + square_norm_of_vector (readout_weights theta true).

(** ** Rules *)

Lemma sum_below_ext n f g : (forall k, f k = g k) -> sum_below n f = sum_below n g.
Proof. intro same. induction n as [|n IH]; cbn; [reflexivity|]. now rewrite same, IH. Qed.

Lemma sum_below_short m n f : (m <= n)%nat -> (forall k, (m <= k)%nat -> f k = 0) -> sum_below n f = sum_below m f.
Proof.
  intros short zero. induction short as [|n short IH]; [reflexivity|]. cbn. rewrite IH, zero by assumption. ring.
Qed.

Lemma sum_below_zero n f : (forall k, f k = 0) -> sum_below n f = 0.
Proof. intro zero. rewrite (sum_below_short 0) by (auto with arith). reflexivity. Qed.

(** Scores depend on the shift alone. *)
Lemma rope_relative q k t_q t_k :
  (t_k <= t_q)%nat ->
  rope q k t_q t_k = sum_below pairs (fun p =>
    (q (2 * p)%nat * k (2 * p)%nat + q (2 * p + 1)%nat * k (2 * p + 1)%nat) * cos (frequency p * INR (t_q - t_k)) +
    (q (2 * p)%nat * k (2 * p + 1)%nat - q (2 * p + 1)%nat * k (2 * p)%nat) * sin (frequency p * INR (t_q - t_k))).
Proof.
  intro order. apply sum_below_ext. intro p. rewrite minus_INR by assumption.
  replace (frequency p * (INR t_q - INR t_k)) with (frequency p * INR t_q - frequency p * INR t_k) by ring.
  rewrite cos_minus, sin_minus. unfold turned. cbn [fst snd]. ring.
Qed.

(** Places counted from the front, and from the end. *)
Lemma places_as_keys (F : list T -> T -> R) (g : T -> nat -> R) N start keys' :
  (N = length start + length keys')%nat ->
  (forall before x, (length before < N)%nat -> F before x = g x (N - 1 - length before)%nat) ->
  sum_over_places F start keys' = sum_over_keys g keys'.
Proof.
  revert start. induction keys' as [|x later IH]; intros start count same; cbn; [reflexivity|].
  cbn [length] in count. rewrite IH by (assumption || (rewrite app_length; cbn; lia)).
  rewrite same by lia. do 2 f_equal. lia.
Qed.

End Transformer.
