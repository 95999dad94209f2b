(** * Theorem 3.2: the two-layer copier, exactly

    Attention only, one head a layer, no feed-forward part.  Layer 1 writes into four directions and its output is
    normalised (sub-LN; a zero vector stays zero); layer 2 compares what layer 1 has written at the query with what it
    has written at the key, and its values are votes.  The theorem at the end says of which lengths all strings are
    copied: it is exact, and holds for any function of the shift as the anchors' score. *)

From Coq Require Import Reals List Lra Lia Arith.
From Copy Require Import Model Readout.
Import ListNotations.
Open Scope R_scope.

(** ** The model *)

Inductive direction := y1 | y2 | y3 | y4.

Definition sum_of_squares (v : direction -> R) : R :=
  v y1 * v y1 + v y2 * v y2 + v y3 * v y3 + v y4 * v y4.

(** v / |v|; Coq has 0 / 0 = 0. *)
Definition normalised (v : direction -> R) (d : direction) : R := v d / sqrt (sum_of_squares v).

(** [score1 c x r]  layer 1: score of key x at shift r, query token c.
    [value1 x d]    layer 1: what the value of token x writes into direction d.
    [scale]         layer 2: the factor of all its scores.
    [vote2 x]       layer 2: the value of token x in the direction that is read out.
    [after2]        what becomes of layer 2's output before the read-out. *)
Record two_layer (T : Type) := {
  score1 : T -> T -> nat -> R;
  value1 : T -> direction -> R;
  scale : R;
  vote2 : T -> R;
  after2 : R -> R
}.
Arguments score1 {T} _ _ _ _.
Arguments value1 {T} _ _ _.
Arguments scale {T} _.
Arguments vote2 {T} _ _.
Arguments after2 {T} _ _.

Section Layers.
Context {T : Type}.
Variable m : two_layer T.

(** Softmax attention of layer 1 over the tokens l, query token c. *)
Definition head1 (c : T) (l : list T) (d : direction) : R :=
  sum_over_keys (fun x r =>
    exp (score1 m c x r) / sum_over_keys (fun x' r' => exp (score1 m c x' r')) l * value1 m x d) l.

(** What layer 1 writes at the last token of l, which sees l and itself asks. *)
Definition hidden (l : list T) (d : direction) : R :=
  match rev l with
  | [] => 0
  | c :: _ => normalised (head1 c l) d
  end.

(** Layer 2: queries read y3 and y4, keys y1 and y2, without regard to positions (the frequency 0 of RoPE). *)
Definition layer2 : readout T := {|
  key_score := fun l before x =>
    scale m * (hidden l y3 * hidden (before ++ [x]) y1 + hidden l y4 * hidden (before ++ [x]) y2);
  vote := vote2 m;
  after := after2 m
|}.

End Layers.

Section Copier.
Context {T : Type}.
Variable tok : bool -> T.
Variables A_rest B_rest : list T.
Variables a1 a2 b1 b2 : T.

(** The last two tokens before the string and the last two after it are the anchors. *)
Definition A : list T := A_rest ++ [a1; a2].
Definition B : list T := B_rest ++ [b1; b2].

(** f r is the score of an anchor at shift r, gap what the anchors in B have more, size the length of the values. *)
Variable f : nat -> R.
Variables gap size : R.

(** The tokens whose question matters. *)
Definition asks (c : T) : Prop := c = b2 \/ exists y, c = tok y.

(** What is asked of the weights.  The symbols and b2 ask the same question,
  whatever the other tokens do; the keys of b1
    and b2 are turned by one place; the scores of keys other than anchors may be anything. *)
Record is_two_layer_copier (m : two_layer T) : Prop := {
  score_a1 : forall c r, asks c -> score1 m c a1 r = f r;
  score_a2 : forall c r, asks c -> score1 m c a2 r = f r;
  score_b1 : forall c r, asks c -> score1 m c b1 r = gap + f (S r);
  score_b2 : forall c r, asks c -> score1 m c b2 r = gap + f (S r);
  size_positive : 0 < size;
  value_a1 : forall d, value1 m a1 d = match d with y1 => size | _ => 0 end;
  value_a2 : forall d, value1 m a2 d = match d with y2 => size | _ => 0 end;
  value_b1 : forall d, value1 m b1 d = match d with y3 => size | _ => 0 end;
  value_b2 : forall d, value1 m b2 d = match d with y4 => size | _ => 0 end;
  value_symbol : forall y d, value1 m (tok y) d = 0;
  value_rest : forall x d, In x (A_rest ++ B_rest) -> value1 m x d = 0;
  votes2 : opposite_votes tok A B (layer2 m)
}.

(** ** Formulas for its scores *)

(** The vector (exp f(r+1), exp f(r)) that the two anchors of A make at shift r from a2: its length, its direction. *)
Definition norm (r : nat) : R := sqrt (exp (f (S r)) * exp (f (S r)) + exp (f r) * exp (f r)).
Definition h1 (r : nat) : R := exp (f (S r)) / norm r.
Definition h2 (r : nat) : R := exp (f r) / norm r.
Definition inner (i j : nat) : R := h1 i * h1 j + h2 i * h2 j.

(** At step i of a string of length n: length of the part from A relative to the part from B, and what normalisation
    leaves of the latter. *)
Definition leak (n i : nat) : R := norm (n + length B + i - 1) / (exp gap * norm i).
Definition damping (n i : nat) : R := / sqrt (1 + leak n i * leak n i).

Definition source (S : R) (n i j : nat) : R := S * damping n i * inner i j.
Definition output (S : R) (n i j : nat) : R :=
  S * damping n i * (leak n (j + 1) * damping n (j + 1)) * inner i (n + length B + j).

Lemma norm_square r : norm r * norm r = exp (f (S r)) * exp (f (S r)) + exp (f r) * exp (f r).
Proof.
  apply sqrt_sqrt. pose proof (exp_pos (f (S r))). pose proof (exp_pos (f r)). nra.
Qed.

Lemma norm_positive r : 0 < norm r.
Proof. apply sqrt_lt_R0. pose proof (exp_pos (f (S r))). pose proof (exp_pos (f r)). nra. Qed.

Lemma h_unit r : h1 r * h1 r + h2 r * h2 r = 1.
Proof.
  unfold h1, h2. pose proof (norm_positive r). pose proof (norm_square r).
  transitivity ((exp (f (S r)) * exp (f (S r)) + exp (f r) * exp (f r)) / (norm r * norm r)); [field; lra|].
  rewrite <- H0. field. lra.
Qed.

Lemma h_positive r : 0 < h1 r /\ 0 < h2 r.
Proof. split; apply Rdiv_lt_0_compat; apply exp_pos || apply norm_positive. Qed.

Lemma inner_bounds i j : 0 < inner i j <= 1.
Proof.
  unfold inner. pose proof (h_unit i). pose proof (h_unit j).
  destruct (h_positive i), (h_positive j). split.
  - apply Rplus_lt_0_compat; now apply Rmult_lt_0_compat.
  - pose proof (Rle_0_sqr (h1 i - h1 j)). pose proof (Rle_0_sqr (h2 i - h2 j)). unfold Rsqr in *. lra.
Qed.

Lemma leak_positive n i : 0 < leak n i.
Proof.
  apply Rdiv_lt_0_compat; [apply norm_positive|]. apply Rmult_lt_0_compat; [apply exp_pos | apply norm_positive].
Qed.

Lemma damping_bounds n i : 0 < damping n i <= 1.
Proof.
  unfold damping. pose proof (leak_positive n i).
  assert (0 < leak n i * leak n i) by (now apply Rmult_lt_0_compat).
  assert (1 <= sqrt (1 + leak n i * leak n i)) 
    by (apply Rle_trans with (sqrt 1); [rewrite sqrt_1; lra | apply sqrt_le_1_alt; lra]).
  split; [apply Rinv_0_lt_compat; lra|]. apply Rle_trans with (/ 1); [apply Rinv_le_contravar; lra | lra].
Qed.

(** A leak only rescales: (w, g u), of lengths |w| and g |u|, becomes (leak h_w, h_u) / sqrt (1 + leak^2). *)
Lemma rescaled (w u g : R) :
  0 < w -> 0 < u -> 0 < g -> sqrt (w * w + g * u * (g * u)) = g * u * sqrt (1 + w / (g * u) * (w / (g * u))).
Proof.
  intros. assert (0 < g * u) by (now apply Rmult_lt_0_compat).
  rewrite <- (sqrt_square (g * u)) at 3 by lra. rewrite <- sqrt_mult.
  - f_equal. field. split; lra.
  - nra.
  - assert (0 < w / (g * u)) by (now apply Rdiv_lt_0_compat). nra.
Qed.

(** ** The layers compute these formulas *)

Lemma normalised_scale k v d : 0 < k -> normalised (fun d' => k * v d') d = normalised v d.
Proof.
  intro pos. unfold normalised, sum_of_squares.
  replace (k * v y1 * (k * v y1) + k * v y2 * (k * v y2) + k * v y3 * (k * v y3) + k * v y4 * (k * v y4))
    with (k * k * (v y1 * v y1 + v y2 * v y2 + v y3 * v y3 + v y4 * v y4)) by ring.
  rewrite sqrt_mult by nra. rewrite sqrt_square by lra. unfold Rdiv. rewrite Rinv_mult.
  transitivity (k * / k * (v d * / sqrt (v y1 * v y1 + v y2 * v y2 + v y3 * v y3 + v y4 * v y4))); [ring|].
  rewrite Rinv_r by lra. ring.
Qed.

Lemma normalised_ext v w d : (forall d', v d' = w d') -> normalised v d = normalised w d.
Proof. intro same. unfold normalised, sum_of_squares. now rewrite !same. Qed.

Lemma sum_zero (g : T -> nat -> R) l : (forall x r, In x l -> g x r = 0) -> sum_over_keys g l = 0.
Proof.
  induction l as [|x l IH]; intro zero; cbn; [reflexivity|].
  rewrite zero by now left. rewrite IH; [ring|]. intros. apply zero. now right.
Qed.

Section Computed.
Variable m : two_layer T.
Context (copier : is_two_layer_copier m).

(** Everything but the four anchors, and the softmax denominator, drops out of the normalised output. *)
Lemma hidden_anchors l (v : direction -> R) d :
  (exists before c, l = before ++ [c] /\ asks c) ->
  (forall c d', asks c -> sum_over_keys (fun x r => exp (score1 m c x r) * value1 m x d') l = size * v d') ->
  hidden m l d = normalised v d.
Proof.
  intros (before & c & E & asking) sums. unfold hidden.
  assert (nonempty : l <> []) by (rewrite E; now destruct before).
  replace (rev l) with (c :: rev before) by (now rewrite E, rev_app_distr).
  pose (Z := sum_over_keys (fun x r => exp (score1 m c x r)) l).
  assert (Z_pos : 0 < Z) by (apply sum_positive; [intros; apply exp_pos | assumption]).
  pose proof (size_positive m copier).
  rewrite <- (normalised_scale (size / Z) v d) by now apply Rdiv_lt_0_compat.
  apply normalised_ext. intro d'. unfold head1. fold Z.
  rewrite (sum_ext _ (fun x r => / Z * (exp (score1 m c x r) * value1 m x d'))) by (intros; field; lra).
  rewrite sum_scale, sums by assumption. field. lra.
Qed.

Lemma symbols_write_nothing c d k (u : list bool) :
  sum_over_keys (fun x r => exp (score1 m c x (r + k)%nat) * value1 m x d) (map tok u) = 0.
Proof.
  apply sum_zero. intros x r inside. apply in_map_iff in inside. destruct inside as (y & <- & _).
  rewrite (value_symbol m copier). ring.
Qed.

Lemma rest_writes_nothing c d k l :
  (forall x, In x l -> In x (A_rest ++ B_rest)) ->
  sum_over_keys (fun x r => exp (score1 m c x (r + k)%nat) * value1 m x d) l = 0.
Proof. intro inside. apply sum_zero. intros x r here. rewrite (value_rest m copier) by auto. ring. Qed.

(** With k tokens after A or B. *)
Lemma sum_A c d k :
  asks c ->
  sum_over_keys (fun x r => exp (score1 m c x (r + k)%nat) * value1 m x d) A =
  size * match d with y1 => exp (f (S k)) | y2 => exp (f k) | _ => 0 end.
Proof.
  intro asking. unfold A. rewrite sum_app. cbn [length].
  rewrite (sum_ext (fun x r => exp (score1 m c x (r + 2 + k)%nat) * value1 m x d)
    (fun x r => exp (score1 m c x (r + (2 + k))%nat) * value1 m x d)) by (intros; now rewrite <- Nat.add_assoc).
  rewrite rest_writes_nothing by (intros; apply in_or_app; now left). cbn [sum_over_keys length Nat.add].
  rewrite (score_a1 m copier), (score_a2 m copier) by assumption.
  rewrite (value_a1 m copier), (value_a2 m copier). destruct d; ring.
Qed.

Lemma sum_B c d k :
  asks c ->
  sum_over_keys (fun x r => exp (score1 m c x (r + k)%nat) * value1 m x d) B =
  size * match d with y3 => exp gap * exp (f (S (S k))) | y4 => exp gap * exp (f (S k)) | _ => 0 end.
Proof.
  intro asking. unfold B. rewrite sum_app. cbn [length].
  rewrite (sum_ext (fun x r => exp (score1 m c x (r + 2 + k)%nat) * value1 m x d)
    (fun x r => exp (score1 m c x (r + (2 + k))%nat) * value1 m x d)) by (intros; now rewrite <- Nat.add_assoc).
  rewrite rest_writes_nothing by (intros; apply in_or_app; now right). cbn [sum_over_keys length Nat.add].
  rewrite (score_b1 m copier), (score_b2 m copier) by assumption.
  rewrite (value_b1 m copier), (value_b2 m copier).
  rewrite !exp_plus. destruct d; ring.
Qed.

(** At the j-th symbol of the string. *)
Lemma hidden_source (u : list bool) (d : direction) :
  u <> [] ->
  hidden m (A ++ map tok u) d = match d with y1 => h1 (length u) | y2 => h2 (length u) | _ => 0 end.
Proof.
  intro nonempty. rewrite (hidden_anchors _ (fun d' => match d' with
    y1 => exp (f (S (length u))) | y2 => exp (f (length u)) | _ => 0 end)).
  - unfold normalised, sum_of_squares, h1, h2, norm. rewrite Rmult_0_l, !Rplus_0_r. destruct d; unfold Rdiv; ring.
  - rewrite (app_removelast_last false nonempty), map_app, app_assoc.
    eexists. eexists. split; [reflexivity | right; now eexists].
  - intros c d' asking. rewrite sum_app, map_length.
    rewrite (sum_A c d' (length u) asking). rewrite (sum_ext _ (fun x r => exp (score1 m c x (r + 0)%nat) *
      value1 m x d'))
      by (intros; now rewrite Nat.add_0_r).
    rewrite symbols_write_nothing. ring.
Qed.

(** At the token that asks at step i, b2 or the (i-1)-th symbol written. *)
Lemma hidden_asking (s u : list bool) (d : direction) :
  let n := length s in let i := (length u + 1)%nat in
  hidden m (A ++ map tok s ++ B ++ map tok u) d =
  match d with
  | y1 => leak n i * damping n i * h1 (n + length B + length u)
  | y2 => leak n i * damping n i * h2 (n + length B + length u)
  | y3 => damping n i * h1 i
  | y4 => damping n i * h2 i
  end.
Proof.
  intros n i.
  assert (place : (n + length B + i - 1)%nat = (n + length B + length u)%nat) by (unfold i; lia).
  set (r := (n + length B + length u)%nat) in *.
  rewrite (hidden_anchors _ (fun d' => match d' with
    | y1 => exp (f (S r)) | y2 => exp (f r)
    | y3 => exp gap * exp (f (S i)) | y4 => exp gap * exp (f i) end)).
  - unfold normalised, sum_of_squares.
    replace (exp (f (S r)) * exp (f (S r)) + exp (f r) * exp (f r) +
        exp gap * exp (f (S i)) * (exp gap * exp (f (S i))) + exp gap * exp (f i) * (exp gap * exp (f i)))
      with (norm r * norm r + exp gap * norm i * (exp gap * norm i)).
    2:{ transitivity (norm r * norm r + exp gap * exp gap * (norm i * norm i)); [ring|]. rewrite !norm_square. ring. }
    pose proof (norm_positive r). pose proof (norm_positive i). pose proof (exp_pos gap).
    rewrite rescaled by assumption. unfold damping, leak. rewrite place.
    set (root := sqrt _). assert (0 < root).
    { apply sqrt_lt_R0. assert (0 < norm r / (exp gap * norm i)); [|nra].
      apply Rdiv_lt_0_compat; [assumption | now apply Rmult_lt_0_compat]. }
    unfold h1, h2. destruct d; field; repeat split; lra.
  - destruct (list_eq_dec Bool.bool_dec u []) as [->|nonempty].
    + exists (A ++ map tok s ++ B_rest ++ [b1]), b2. split; [|now left].
      unfold B. rewrite <- !app_assoc. cbn. now rewrite ?app_nil_r.
    + rewrite (app_removelast_last false nonempty), map_app, !app_assoc.
      eexists. eexists. split; [reflexivity | right; now eexists].
  - intros c d' asking. rewrite !sum_app. rewrite !app_length, !map_length.
    rewrite (sum_A c d' (length s + (length B + length u))%nat asking).
    rewrite (sum_B c d' (length u) asking).
    rewrite (sum_ext _ (fun x r0 => exp (score1 m c x (r0 + 0)%nat) * value1 m x d') (map tok u))
      by (intros; now rewrite Nat.add_0_r).
    rewrite !symbols_write_nothing.
    replace (length s + (length B + length u))%nat with r by (unfold r, n; lia).
    replace (S (length u)) with i by (unfold i; lia). destruct d'; ring.
Qed.

Lemma firstn_snoc (s : list bool) (j : nat) :
  (1 <= j <= length s)%nat -> map tok (firstn (j - 1) s) ++ [tok (symbol s j)] = map tok (firstn j s).
Proof.
  intro range. replace (firstn j s) with (firstn (j - 1) s ++ [symbol s j]); [now rewrite map_app|].
  unfold symbol. destruct j as [|k]; [lia|]. cbn [Nat.sub]. rewrite Nat.sub_0_r.
  assert (short : (k < length s)%nat) by lia. clear range. revert k short.
  induction s as [|y s IH]; cbn; intros k short; [lia|].
  destruct k as [|k]; cbn; [reflexivity|]. f_equal. apply IH. lia.
Qed.

Lemma source_score_two_layer (s : list bool) (i j : nat) :
  (1 <= i <= length s)%nat -> (1 <= j <= length s)%nat ->
  source_score tok A B (layer2 m) s i j = source (scale m) (length s) i j.
Proof.
  intros range inside. unfold source_score, layer2, seen. cbn [key_score].
  rewrite <- app_assoc, firstn_snoc, !hidden_asking by assumption.
  rewrite !hidden_source by (intro E; apply (f_equal (@length bool)) in E; rewrite firstn_length in E; cbn in E; lia).
  rewrite !firstn_length, !Nat.min_l by lia. replace (i - 1 + 1)%nat with i by lia.
  unfold source, inner. ring.
Qed.

Lemma output_score_two_layer (s : list bool) (i j : nat) :
  (1 <= i <= length s)%nat -> (1 <= j < i)%nat ->
  output_score tok A B (layer2 m) s i j = output (scale m) (length s) i j.
Proof.
  intros range inside. unfold output_score, layer2, seen. cbn [key_score].
  rewrite <- !app_assoc, firstn_snoc, !hidden_asking by lia.
  rewrite !firstn_length, !Nat.min_l by lia. replace (i - 1 + 1)%nat with i by lia.
  unfold output, inner. ring.
Qed.

(** The two-layer copier copies all strings of length n iff at each step the wrong keys weigh less than the right one
    (reconstructed model; new as an equivalence). *)
Theorem two_layer_copies_iff (n : nat) :
  (forall s, length s = n -> copied tok A B (output_probability (layer2 m)) s) <->
  (forall i, (1 <= i <= n)%nat -> wrong_weight (source (scale m) n i) (output (scale m) n i) n i < 1).
Proof.
  apply (all_copied_iff tok A B (layer2 m) (votes2 m copier)).
  - exact source_score_two_layer.
  - exact output_score_two_layer.
Qed.

(** Where it fails, the string that is constant but for s_i is copied wrong at step i, with either symbol. *)
Theorem two_layer_flip_iff (n i : nat) (y : bool) :
  (1 <= i <= n)%nat ->
  (right_at tok A B (output_probability (layer2 m)) (flip n i y) i <->
   wrong_weight (source (scale m) n i) (output (scale m) n i) n i < 1).
Proof.
  apply (flip_right_iff tok A B (layer2 m) (votes2 m copier)).
  - exact source_score_two_layer.
  - exact output_score_two_layer.
Qed.

(** No weights make the anchors of two places the same token, nor an anchor a symbol: the layout
    [<n> <I:> s <n> <I:> <O:> s], where a2 and b1 are both [<I:>], is outside this construction. *)
Theorem anchors_differ (y : bool) : NoDup [a1; a2; b1; b2; tok y].
Proof.
  pose proof (size_positive m copier) as pos.
  assert (differ : forall d x x', value1 m x d <> value1 m x' d -> x' <> x)
    by (intros d x x' other ->; now apply other).
  assert (A1 := value_a1 m copier). assert (A2 := value_a2 m copier). assert (B1 := value_b1 m copier).
  assert (B2 := value_b2 m copier). assert (Y := value_symbol m copier y).
  repeat (apply NoDup_cons; [cbn; intro H; repeat destruct H as [H|H]; try contradiction; revert H|]);
    try apply NoDup_nil.
  1-4: apply (differ y1); rewrite A1, ?A2, ?B1, ?B2, ?Y; lra.
  1-3: apply (differ y2); rewrite A2, ?B1, ?B2, ?Y; lra.
  1-2: apply (differ y3); rewrite B1, ?B2, ?Y; lra.
  apply (differ y4); rewrite B2, Y; lra.
Qed.

End Computed.
End Copier.
