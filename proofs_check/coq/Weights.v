(** * Theorem 3.2 from its weights: they exist, and their norm is at most rho

    The weights of the two-layer copier, that they make the model of [TwoLayer.v], and the sum of their squares,
    18 t^2 + 8 alpha^2 + 14, where c = t^4 and S = alpha^4. *)

From Coq Require Import Reals List Lra Lia Arith.
From Copy Require Import Model Readout Transformer TwoLayer Neighbours AnchorCurve Theorem32 CentredCurve.
Import ListNotations.
Open Scope R_scope.

Section Weights.
Context {T : Type}.
Variable eq_dec : forall x y : T, {x = y} + {x <> y}.
Variable tok : bool -> T.
Variables A_rest B_rest : list T.
Variables a1 a2 b1 b2 : T.

(** The six tokens that are embedded differ from each other and from all others in A and B. *)
Definition special : list T := [a1; a2; b1; b2; tok false; tok true].
Context (distinct : NoDup special).
Context (apart : forall x, In x (A_rest ++ B_rest) -> ~ In x special).

Variables t alpha beta back : R.
Context (t_pos : 0 < t) (alpha_pos : 0 < alpha).

(** At least 7 rotary pairs; the first does not turn, the second turns by beta, the others, which are not used, may turn
    by any angles. *)
Variable pairs : nat.
Context (wide : (7 <= pairs)%nat).
Variable frequency : nat -> R.
Context (still : frequency 0%nat = 0) (turning : frequency 1%nat = beta).

(** ** The weights *)

Definition is (x y : T) : R := if eq_dec x y then 1 else 0.

(** Coordinates of the residual stream: 0 asks, 1 anchor of A, 2 anchor of B, 3 symbol, 4 answer, 5 to 8 which anchor,
    9 to 12 the four directions that layer 1 writes into. *)
Definition embed (x : T) (k : nat) : R :=
  match k with
  | 0%nat => t * (is x (tok false) + is x (tok true) + is x b2)
  | 1%nat => t * (is x a1 + is x a2)
  | 2%nat => t * (is x b1 + is x b2)
  | 3%nat => is x (tok false) - is x (tok true)
  | 5%nat => is x a1
  | 6%nat => is x a2
  | 7%nat => is x b1
  | 8%nat => is x b2
  | _ => 0
  end.

(** Pair 1 (coordinates 2 and 3 of the head) finds the anchors by their distance, pair 0 lifts those of B. *)
Definition layer_1 : layer := {|
  queries := fun row k => match row, k with 0%nat, 0%nat => 2 * t | 2%nat, 0%nat => t | _, _ => 0 end;
  keys := fun row k =>
    match row, k with
    | 0%nat, 2%nat => 2 * t
    | 2%nat, 1%nat => t * cos (beta * back)
    | 3%nat, 1%nat => t * sin (beta * back)
    | 2%nat, 2%nat => t * cos (beta * (1 - back))
    | 3%nat, 2%nat => - (t * sin (beta * (1 - back)))
    | _, _ => 0
    end;
  values := fun row k =>
    match row, k with
    | 0%nat, 5%nat | 1%nat, 6%nat | 2%nat, 7%nat | 3%nat, 8%nat => 1
    | _, _ => 0
    end;
  outputs := fun row k =>
    match row, k with
    | 9%nat, 0%nat | 10%nat, 1%nat | 11%nat, 2%nat | 12%nat, 3%nat => alpha
    | _, _ => 0
    end
|}.

(** Pair 0 compares the directions. *)
Definition layer_2 : layer := {|
  queries := fun row k => match row, k with 0%nat, 11%nat | 1%nat, 12%nat => alpha | _, _ => 0 end;
  keys := fun row k => match row, k with 0%nat, 9%nat | 1%nat, 10%nat => alpha | _, _ => 0 end;
  values := fun row k => match row, k with 0%nat, 3%nat => 1 | _, _ => 0 end;
  outputs := fun row k => match row, k with 4%nat, 0%nat => 1 | _, _ => 0 end
|}.

Definition weights : parameters T := {|
  embedding := embed;
  first := layer_1;
  second := layer_2;
  readout_weights := fun y k => match k with 4%nat => sign y | _ => 0 end
|}.

(** ** The model that they make *)

Definition key_cosine (x : T) : R := t * (cos (beta * back) * embed x 1 + cos (beta * (1 - back)) * embed x 2).
Definition key_sine (x : T) : R := t * (sin (beta * back) * embed x 1 - sin (beta * (1 - back)) * embed x 2).

Definition made : two_layer T := {|
  score1 := fun c x r => 2 * t * embed c 0 * (2 * t * embed x 2) +
    t * embed c 0 * (key_cosine x * cos (beta * INR r) + key_sine x * sin (beta * INR r));
  value1 := fun x d => match d with y1 => embed x 5 | y2 => embed x 6 | y3 => embed x 7 | y4 => embed x 8 end;
  scale := alpha ^ 4;
  vote2 := fun x => embed x 3;
  after2 := fun o => o / sqrt (o * o)
|}.

Lemma times_13 (M : matrix) v row :
  (forall k, (13 <= k)%nat -> M row k = 0) -> times pairs M v row = sum_below 13 (fun k => M row k * v k).
Proof.
  intro zero. unfold times. apply sum_below_short; [lia|]. intros k big. rewrite zero by assumption. ring.
Qed.

Lemma times_ext (M : matrix) v w row : (forall k, v k = w k) -> times pairs M v row = times pairs M w row.
Proof. intro same. apply sum_below_ext. intro k. now rewrite same. Qed.

Ltac beyond := intros k big; do 13 (destruct k as [|k]; [exfalso; lia|]); reflexivity.
Tactic Notation "rows" ident(row) integer(n) := do n (destruct row as [|row]; [rewrite times_13 by beyond; cbn; ring|]);
  rewrite times_13 by (intros; reflexivity); cbn; ring.

Lemma queries_1 v row :
  times pairs (queries layer_1) v row = match row with 0%nat => 2 * t * v 0%nat | 2%nat => t * v 0%nat | _ => 0 end.
Proof. rows row 4. Qed.

Lemma keys_1 v row :
  times pairs (keys layer_1) v row =
  match row with
  | 0%nat => 2 * t * v 2%nat
  | 2%nat => t * (cos (beta * back) * v 1%nat + cos (beta * (1 - back)) * v 2%nat)
  | 3%nat => t * (sin (beta * back) * v 1%nat - sin (beta * (1 - back)) * v 2%nat)
  | _ => 0
  end.
Proof. rows row 4. Qed.

Lemma values_1 v row :
  times pairs (values layer_1) v row =
  match row with
  | 0%nat => v 5%nat | 1%nat => v 6%nat | 2%nat => v 7%nat | 3%nat => v 8%nat
  | _ => 0
  end.
Proof. rows row 4. Qed.

Lemma outputs_1 v row :
  times pairs (outputs layer_1) v row =
  match row with
  | 9%nat => alpha * v 0%nat | 10%nat => alpha * v 1%nat | 11%nat => alpha * v 2%nat | 12%nat => alpha * v 3%nat
  | _ => 0
  end.
Proof. rows row 13. Qed.

Lemma queries_2 v row :
  times pairs (queries layer_2) v row =
  match row with 0%nat => alpha * v 11%nat | 1%nat => alpha * v 12%nat | _ => 0 end.
Proof. rows row 4. Qed.

Lemma keys_2 v row :
  times pairs (keys layer_2) v row = match row with 0%nat => alpha * v 9%nat | 1%nat => alpha * v 10%nat | _ => 0 end.
Proof. rows row 4. Qed.

Lemma values_2 v row : times pairs (values layer_2) v row = match row with 0%nat => v 3%nat | _ => 0 end.
Proof. rows row 4. Qed.

Lemma outputs_2 v row : times pairs (outputs layer_2) v row = match row with 4%nat => v 0%nat | _ => 0 end.
Proof. rows row 5. Qed.

(** *** Layer 1 *)

Lemma stream0_last before c k : stream0 weights (before ++ [c]) k = embed c k.
Proof. unfold stream0. now rewrite rev_app_distr. Qed.

Lemma rope_1 (x y : vector) (c k : T) t_q t_k :
  (forall j, x j = embed c j) -> (forall j, y j = embed k j) -> (t_k <= t_q)%nat ->
  rope pairs frequency (times pairs (queries layer_1) x) (times pairs (keys layer_1) y) t_q t_k =
  score1 made c k (t_q - t_k).
Proof.
  intros same_x same_y order. rewrite rope_relative by assumption. rewrite (sum_below_short 2) by
    (lia || (intros p big; rewrite !queries_1; destruct p as [|[|p]]; try lia;
      replace (2 * S (S p))%nat with (S (S (S (S (2 * p))))) by lia; cbn; ring)).
  cbn [sum_below Nat.mul Nat.add]. rewrite !queries_1, !keys_1, !same_x, !same_y, still, turning.
  rewrite (Rmult_0_l (INR (t_q - t_k))), cos_0, sin_0.
  cbn [score1 made]. unfold key_cosine, key_sine. ring.
Qed.

Lemma attend_1 before c row :
  let l := before ++ [c] in
  attend pairs frequency layer_1 (stream0 weights) l row =
  match row with
  | 0%nat => head1 made c l y1 | 1%nat => head1 made c l y2 | 2%nat => head1 made c l y3 | 3%nat => head1 made c l y4
  | _ => 0
  end.
Proof.
  intro l. unfold attend.
  assert (scores : forall before' x, (length before' < length l)%nat ->
    rope pairs frequency (times pairs (queries layer_1) (stream0 weights l))
      (times pairs (keys layer_1) (stream0 weights (before' ++ [x]))) (length l - 1) (length before') =
    score1 made c x (length l - 1 - length before')).
  { intros before' x inside. apply rope_1; [apply stream0_last | apply stream0_last | lia]. }
  rewrite (places_as_keys (fun before' x => exp (rope pairs frequency (times pairs (queries layer_1) (stream0 weights
    l))
      (times pairs (keys layer_1) (stream0 weights (before' ++ [x]))) (length l - 1) (length before')))
    (fun x r => exp (score1 made c x r)) (length l)); [|reflexivity | intros; now rewrite scores].
  set (Z := sum_over_keys _ l).
  assert (by_value : forall d row',
    (forall x, times pairs (values layer_1) (embed x) row' = value1 made x d) ->
    sum_over_places (fun before' x => exp (rope pairs frequency (times pairs (queries layer_1) (stream0 weights l))
      (times pairs (keys layer_1) (stream0 weights (before' ++ [x]))) (length l - 1) (length before')) / Z *
      times pairs (values layer_1) (stream0 weights (before' ++ [x])) row') [] l = head1 made c l d).
  { intros d row' value. unfold head1. fold Z.
    apply places_as_keys with (N := length l); [reflexivity|]. intros before' x inside. rewrite scores by assumption.
    rewrite (times_ext _ _ (embed x)) by apply stream0_last. now rewrite value. }
  do 4 (destruct row as [|row]; [apply by_value; intro; rewrite values_1; reflexivity|]).
  apply places_zero. intros before' x _. rewrite values_1. ring.
Qed.

Lemma unit_1 before c k :
  let l := before ++ [c] in
  unit pairs (attend pairs frequency layer_1 (stream0 weights) l) k =
  match k with
  | 0%nat => hidden made l y1 | 1%nat => hidden made l y2 | 2%nat => hidden made l y3 | 3%nat => hidden made l y4
  | _ => 0
  end.
Proof.
  intro l. unfold unit, hidden. replace (rev l) with (c :: rev before) by (unfold l; now rewrite rev_app_distr).
  unfold normalised.
  assert (squares : sum_below (2 * pairs) (fun k' => attend pairs frequency layer_1 (stream0 weights) l k' *
    attend pairs frequency layer_1 (stream0 weights) l k') = sum_of_squares (head1 made c l)).
  { rewrite (sum_below_short 4).
    - cbn [sum_below]. unfold l. rewrite !attend_1. unfold sum_of_squares. ring.
    - lia.
    - intros k' big. unfold l. rewrite attend_1. do 4 (destruct k' as [|k']; [exfalso; lia|]). ring. }
  rewrite squares. unfold l. rewrite attend_1. do 4 (destruct k as [|k]; [reflexivity|]). unfold Rdiv. ring.
Qed.

Lemma stream1_last before c k :
  let l := before ++ [c] in
  stream1 pairs frequency weights l k = embed c k +
  match k with
  | 9%nat => alpha * hidden made l y1 | 10%nat => alpha * hidden made l y2
  | 11%nat => alpha * hidden made l y3 | 12%nat => alpha * hidden made l y4
  | _ => 0
  end.
Proof.
  intro l. unfold stream1, block. cbn [first weights]. unfold l. rewrite stream0_last, outputs_1.
  do 13 (destruct k as [|k]; [rewrite ?unit_1; reflexivity|]). reflexivity.
Qed.

(** *** Layer 2 *)

Lemma rope_2 (x y : vector) t_q t_k :
  rope pairs frequency (times pairs (queries layer_2) x) (times pairs (keys layer_2) y) t_q t_k =
  alpha * x 11%nat * (alpha * y 9%nat) + alpha * x 12%nat * (alpha * y 10%nat).
Proof.
  unfold rope. rewrite (sum_below_short 1).
  - cbn [sum_below Nat.mul Nat.add]. rewrite !queries_2, !keys_2, still, (Rmult_0_l (INR t_q)), (Rmult_0_l (INR t_k)).
    unfold turned.
    rewrite cos_0, sin_0. cbn [fst snd]. ring.
  - lia.
  - intros p big. rewrite !queries_2. destruct p as [|p]; [lia|].
    replace (2 * S p)%nat with (S (S (2 * p))) by lia. cbn [Nat.add]. unfold turned. cbn [fst snd]. ring.
Qed.

Lemma attend_2 before c row :
  let l := before ++ [c] in
  attend pairs frequency layer_2 (stream1 pairs frequency weights) l row =
  match row with 0%nat => head_output (layer2 made) l | _ => 0 end.
Proof.
  intro l. unfold attend.
  assert (scores : forall before' x,
    rope pairs frequency (times pairs (queries layer_2) (stream1 pairs frequency weights l))
      (times pairs (keys layer_2) (stream1 pairs frequency weights (before' ++ [x]))) (length l - 1) (length before') =
    key_score (layer2 made) l before' x).
  { intros before' x. rewrite rope_2. unfold l at 1 2. rewrite !stream1_last. cbn [key_score layer2 scale made embed].
    fold l. ring. }
  destruct row as [|row].
  - unfold head_output, weight.
    rewrite (places_ext (fun before' x => exp (rope pairs frequency _ _ _ _))
      (fun before' x => exp (key_score (layer2 made) l before' x))) by (intros; now rewrite scores).
    apply places_ext. intros before' x. rewrite scores, values_2, stream1_last. cbn [vote layer2 vote2 made]. ring.
  - apply places_zero. intros before' x _. rewrite values_2. ring.
Qed.

Lemma same_logit before c y :
  let l := before ++ [c] in
  transformer_logit pairs frequency weights l y = output_logit (layer2 made) l y.
Proof.
  intro l. unfold transformer_logit.
  rewrite (sum_below_short 5) by (lia || (intros k big; do 5 (destruct k as [|k]; [exfalso; lia|]); cbn; ring)).
  cbn [sum_below readout_weights weights]. unfold stream2, block. cbn [second weights]. unfold l.
  rewrite !outputs_2, !stream1_last. cbn [embed]. unfold unit.
  rewrite (sum_below_short 1) by (lia || (intros k big; rewrite attend_2; destruct k; [lia | cbn; ring])).
  cbn [sum_below]. rewrite attend_2. unfold output_logit. cbn [after layer2 after2 made].
  rewrite (Rplus_0_l (head_output _ _ * head_output _ _)). unfold Rdiv. ring.
Qed.

Lemma same_probability l y :
  l <> [] -> transformer_probability pairs frequency weights l y = output_probability (layer2 made) l y.
Proof.
  intro nonempty. destruct (exists_last nonempty) as (before & c & ->).
  unfold transformer_probability, output_probability. now rewrite !same_logit.
Qed.

(** ** It is the copier *)

Lemma special_differ :
  a1 <> a2 /\ a1 <> b1 /\ a1 <> b2 /\ a1 <> tok false /\ a1 <> tok true /\
  a2 <> b1 /\ a2 <> b2 /\ a2 <> tok false /\ a2 <> tok true /\
  b1 <> b2 /\ b1 <> tok false /\ b1 <> tok true /\ b2 <> tok false /\ b2 <> tok true /\ tok false <> tok true.
Proof.
  unfold special in distinct.
  repeat match goal with H : NoDup (_ :: _) |- _ => inversion_clear H end. cbn in *. intuition congruence.
Qed.

Ltac by_tokens :=
  destruct special_differ as (? & ? & ? & ? & ? & ? & ? & ? & ? & ? & ? & ? & ? & ? & ?);
  unfold is; repeat (destruct (eq_dec _ _); try congruence).

Lemma embed_asks c : asks tok b2 c -> embed c 0 = t.
Proof. intros [->|([|] & ->)]; cbn; by_tokens; ring. Qed.

Lemma embed_rest x : In x (A_rest ++ B_rest) -> forall k, embed x k = 0.
Proof.
  intros here k. pose proof (apart x here) as other. cbn in other.
  assert (none : forall y, y <> x -> is x y = 0).
  { intros y differs. unfold is. destruct (eq_dec x y); [congruence | reflexivity]. }
  assert (each : forall y, In y special -> is x y = 0) by (intros y inside; apply none; intros ->; now apply other).
  unfold special in each. cbn in each.
  destruct k as [|[|[|[|[|[|[|[|[|k]]]]]]]]]; cbn [embed]; rewrite ?each by auto 8; ring.
Qed.

Lemma keeps_sign o : (0 < o / sqrt (o * o) <-> 0 < o) /\ (o / sqrt (o * o) < 0 <-> o < 0).
Proof.
  destruct (Rtotal_order o 0) as [neg|[->|pos]].
  - assert (root : 0 < / sqrt (o * o)) by (apply Rinv_0_lt_compat, sqrt_lt_R0; nra).
    assert (0 < - o * / sqrt (o * o)) by (apply Rmult_lt_0_compat; lra). unfold Rdiv. split; split; lra.
  - unfold Rdiv. rewrite Rmult_0_l. lra.
  - assert (root : 0 < / sqrt (o * o)) by (apply Rinv_0_lt_compat, sqrt_lt_R0; nra).
    assert (0 < o * / sqrt (o * o)) by (apply Rmult_lt_0_compat; lra). unfold Rdiv. split; split; lra.
Qed.

Lemma made_is_copier :
  is_two_layer_copier tok A_rest B_rest a1 a2 b1 b2 (one_frequency (t ^ 4) beta back) (4 * t ^ 4) 1 made.
Proof.
  assert (A_anchor : forall c x r, asks tok b2 c -> embed x 1 = t -> embed x 2 = 0 ->
    score1 made c x r = one_frequency (t ^ 4) beta back r).
  { intros c x r asking one two. cbn [score1 made]. unfold key_cosine, key_sine.
    rewrite embed_asks, one, two by assumption. unfold one_frequency.
    replace (beta * (INR r - back)) with (beta * INR r - beta * back) by ring. rewrite cos_minus. ring. }
  assert (B_anchor : forall c x r, asks tok b2 c -> embed x 1 = 0 -> embed x 2 = t ->
    score1 made c x r = 4 * t ^ 4 + one_frequency (t ^ 4) beta back (S r)).
  { intros c x r asking one two. cbn [score1 made]. unfold key_cosine, key_sine.
    rewrite embed_asks, one, two by assumption. unfold one_frequency. rewrite S_INR.
    replace (beta * (INR r + 1 - back)) with (beta * INR r + beta * (1 - back)) by ring. rewrite cos_plus. ring. }
  constructor.
  - intros. apply A_anchor; [assumption | |]; cbn; by_tokens; ring.
  - intros. apply A_anchor; [assumption | |]; cbn; by_tokens; ring.
  - intros. apply B_anchor; [assumption | |]; cbn; by_tokens; ring.
  - intros. apply B_anchor; [assumption | |]; cbn; by_tokens; ring.
  - lra.
  - intros []; cbn; by_tokens; reflexivity.
  - intros []; cbn; by_tokens; reflexivity.
  - intros []; cbn; by_tokens; reflexivity.
  - intros []; cbn; by_tokens; reflexivity.
  - intros [] []; cbn; by_tokens; reflexivity.
  - intros x d here. destruct d; cbn [value1 made]; now apply embed_rest.
  - split; [|split].
    + exists 1. split; [lra|]. intros []; cbn; by_tokens; ring.
    + intros x here. cbn [vote layer2 vote2 made]. unfold A, B in here.
      assert (cases : In x (A_rest ++ B_rest) \/ In x [a1; a2; b1; b2]).
      { rewrite !in_app_iff in *. cbn in *. tauto. }
      destruct cases as [rest|anchor]; [now apply embed_rest|].
      cbn in anchor. destruct anchor as [<-|[<-|[<-|[<-|[]]]]]; cbn; by_tokens; ring.
    + intro o. apply keeps_sign.
Qed.

(** ** Its norm *)

Tactic Notation "entries" integer(n) constr(count) := unfold square_norm_of_matrix, square_norm_of_vector;
  rewrite (sum_below_short count) by
    (lia || (intros row big; do n (destruct row as [|row]; [exfalso; lia|]); apply sum_below_zero; intro; cbn; ring));
  cbn [sum_below]; rewrite !(sum_below_short 13 (2 * pairs)) by
    (lia || (intros k big; do 13 (destruct k as [|k]; [exfalso; lia|]); cbn; ring)); cbn.

Lemma norm_layer_1 : square_norm_of_layer pairs layer_1 = 11 * (t * t) + 4 + 4 * (alpha * alpha).
Proof.
  unfold square_norm_of_layer.
  assert (Q : square_norm_of_matrix pairs (queries layer_1) = 5 * (t * t)) by (entries 4 4%nat; ring).
  assert (K : square_norm_of_matrix pairs (keys layer_1) = 6 * (t * t)).
  { transitivity (4 * (t * t) + t * t * (Rsqr (sin (beta * back)) + Rsqr (cos (beta * back))) +
      t * t * (Rsqr (sin (beta * (1 - back))) + Rsqr (cos (beta * (1 - back))))); [entries 4 4%nat; unfold Rsqr; ring|].
    rewrite !sin2_cos2. ring. }
  assert (V : square_norm_of_matrix pairs (values layer_1) = 4) by (entries 4 4%nat; ring).
  assert (O : square_norm_of_matrix pairs (outputs layer_1) = 4 * (alpha * alpha)) by (entries 13 13%nat; ring).
  rewrite Q, K, V, O. ring.
Qed.

Lemma norm_layer_2 : square_norm_of_layer pairs layer_2 = 4 * (alpha * alpha) + 2.
Proof.
  unfold square_norm_of_layer.
  assert (Q : square_norm_of_matrix pairs (queries layer_2) = 2 * (alpha * alpha)) by (entries 4 4%nat; ring).
  assert (K : square_norm_of_matrix pairs (keys layer_2) = 2 * (alpha * alpha)) by (entries 4 4%nat; ring).
  assert (V : square_norm_of_matrix pairs (values layer_2) = 1) by (entries 4 4%nat; ring).
  assert (O : square_norm_of_matrix pairs (outputs layer_2) = 1) by (entries 5 5%nat; ring).
  rewrite Q, K, V, O. ring.
Qed.

Lemma norm_embedding x :
  square_norm_of_vector pairs (embed x) =
  t * t * (is x (tok false) + is x (tok true) + is x a1 + is x a2 + is x b1 + 2 * is x b2) +
  (is x (tok false) + is x (tok true) + is x a1 + is x a2 + is x b1 + is x b2).
Proof.
  unfold square_norm_of_vector. rewrite (sum_below_short 9) by
    (lia || (intros k big; do 9 (destruct k as [|k]; [exfalso; lia|]); cbn; ring)).
  cbn [sum_below embed]. by_tokens; ring.
Qed.

Definition occurrences (y : T) (l : list T) : R := fold_right (fun x total => is x y + total) 0 l.

Lemma occurs_once y l : NoDup l -> occurrences y l <= 1.
Proof.
  assert (never : forall l', ~ In y l' -> occurrences y l' = 0).
  { induction l' as [|x l' IH]; intro absent; [reflexivity|]. cbn [occurrences fold_right].
    fold (occurrences y l'). rewrite IH by (intro; apply absent; now right). unfold is.
    destruct (eq_dec x y) as [->|]; [|ring]. exfalso. apply absent. now left. }
  induction 1 as [|x l new distinct' IH]; [cbn; lra|]. cbn [occurrences fold_right]. fold (occurrences y l).
  unfold is. destruct (eq_dec x y) as [->|]; [rewrite never by assumption|]; lra.
Qed.

Lemma norm_of_weights vocabulary :
  NoDup vocabulary -> square_norm pairs weights vocabulary <= 18 * (t * t) + 8 * (alpha * alpha) + 14.
Proof.
  intro no_repeats. unfold square_norm. cbn [first second readout_weights embedding weights].
  rewrite norm_layer_1, norm_layer_2.
  assert (readouts : forall y, square_norm_of_vector pairs (fun k => match k with 4%nat => sign y | _ => 0 end) = 1).
  { intro y. unfold square_norm_of_vector. rewrite (sum_below_short 5) by
      (lia || (intros k big; do 5 (destruct k as [|k]; [exfalso; lia|]); cbn; ring)).
    cbn [sum_below]. rewrite sign_square. ring. }
  rewrite !readouts.
  assert (total : fold_right (fun x total => square_norm_of_vector pairs (embed x) + total) 0 vocabulary =
    t * t * (occurrences (tok false) vocabulary + occurrences (tok true) vocabulary + occurrences a1 vocabulary +
      occurrences a2 vocabulary + occurrences b1 vocabulary + 2 * occurrences b2 vocabulary) +
    (occurrences (tok false) vocabulary + occurrences (tok true) vocabulary + occurrences a1 vocabulary +
      occurrences a2 vocabulary + occurrences b1 vocabulary + occurrences b2 vocabulary)).
  { clear no_repeats. induction vocabulary as [|x l IH]; [cbn; ring|]. cbn [fold_right]. rewrite IH, norm_embedding.
    unfold occurrences. cbn [fold_right]. ring. }
  rewrite total. pose proof (fun y => occurs_once y vocabulary no_repeats) as once.
  pose proof (once (tok false)). pose proof (once (tok true)). pose proof (once a1). pose proof (once a2).
  pose proof (once b1). pose proof (once b2).
  assert (0 < t * t) by now apply Rmult_lt_0_compat.
  assert (t * t * (occurrences (tok false) vocabulary + occurrences (tok true) vocabulary + occurrences a1 vocabulary +
      occurrences a2 vocabulary + occurrences b1 vocabulary + 2 * occurrences b2 vocabulary) <= t * t * 7)
    by (apply Rmult_le_compat_l; lra). lra.
Qed.

(** ** All strings *)

Lemma weights_copy (s : list bool) :
  copied tok (A A_rest a1 a2) (B B_rest b1 b2) (output_probability (layer2 made)) s ->
  copied tok (A A_rest a1 a2) (B B_rest b1 b2) (transformer_probability pairs frequency weights) s.
Proof.
  intros right i range. unfold right_at. rewrite same_probability by now apply seen_nonempty. exact (right i range).
Qed.

End Weights.

Lemma transformer_probabilities_add_up {T} pairs frequency (theta : parameters T) l :
  transformer_probability pairs frequency theta l false + transformer_probability pairs frequency theta l true = 1.
Proof.
  unfold transformer_probability.
  pose proof (exp_pos (transformer_logit pairs frequency theta l false)).
  pose proof (exp_pos (transformer_logit pairs frequency theta l true)). field. lra.
Qed.

(** ** The theorem

    For any tokens: a vocabulary that may be any finite list, with the symbols 0 and 1 and four different anchors, A and
    B of any lengths a, b >= 2 with any other tokens before the anchors. *)

Section Existence.
Context {T : Type}.
Variable eq_dec : forall x y : T, {x = y} + {x <> y}.
Variable tok : bool -> T.
Variables A_rest B_rest vocabulary : list T.
Variables a1 a2 b1 b2 : T.
Context (distinct : NoDup [a1; a2; b1; b2; tok false; tok true]).
Context (apart : forall x, In x (A_rest ++ B_rest) -> ~ In x [a1; a2; b1; b2; tok false; tok true]).
Context (no_repeats : NoDup vocabulary).

Notation A := (A_rest ++ [a1; a2]).
Notation B := (B_rest ++ [b1; b2]).

(** Half the width d = 10a + 10b + 100: the number of rotary pairs. *)
Definition half_width : nat := 5 * length A + 5 * length B + 50.

(** The frequency of pair 0 is 0, that of pair 1 is beta, the others are arbitrary. *)
Definition admissible (beta : R) (frequency : nat -> R) : Prop := frequency 0%nat = 0 /\ frequency 1%nat = beta.

(** Weights of norm at most rho copy every string up to L and generate it greedily from the prompt. *)
Definition weights_exist (rho L beta : R) : Prop :=
  forall frequency, admissible beta frequency ->
  exists theta : parameters T,
    sqrt (square_norm half_width theta vocabulary) <= rho /\
    forall s, INR (length s) <= L ->
      copied tok A B (transformer_probability half_width frequency theta) s /\
      generate tok (transformer_probability half_width frequency theta) (A ++ map tok s ++ B) (length s) = s.

Lemma weights_exist_if (rho L c beta back alpha : R) :
  0 < rho -> 0 < c -> 0 < alpha -> 18 * sqrt c + 8 * (alpha * alpha) + 14 <= rho * rho ->
  (forall m s,
     is_two_layer_copier tok A_rest B_rest a1 a2 b1 b2 (one_frequency c beta back) (4 * c) 1 m ->
     scale m = alpha ^ 4 -> INR (length s) <= L -> copied tok A B (output_probability (layer2 m)) s) ->
  weights_exist rho L beta.
Proof.
  intros rho_pos c_pos alpha_pos small copies frequency [still turning].
  set (t := sqrt (sqrt c)).
  assert (root_pos : 0 < sqrt c) by (now apply sqrt_lt_R0).
  assert (t_pos : 0 < t) by (now apply sqrt_lt_R0).
  assert (t_square : t * t = sqrt c) by (apply sqrt_sqrt; lra).
  assert (t_fourth : t ^ 4 = c).
  { replace (t ^ 4) with (t * t * (t * t)) by ring. rewrite t_square. apply sqrt_sqrt. lra. }
  assert (enough : (7 <= half_width)%nat) by (unfold half_width; lia).
  exists (weights eq_dec tok a1 a2 b1 b2 t alpha beta back). split.
  - rewrite <- (sqrt_square rho) by lra. apply sqrt_le_1_alt.
    eapply Rle_trans; [now apply norm_of_weights|]. rewrite t_square. exact small.
  - intros s short.
    assert (all : copied tok A B (transformer_probability half_width frequency
      (weights eq_dec tok a1 a2 b1 b2 t alpha beta back)) s).
    { apply (weights_copy eq_dec tok A_rest B_rest a1 a2 b1 b2); try assumption.
      apply copies; [|reflexivity | assumption]. rewrite <- t_fourth. now apply made_is_copier. }
    split; [exact all|]. apply generation_is_exact; [apply transformer_probabilities_add_up | exact all].
Qed.

(** The paper's curve, with half steps. *)
Lemma weights_exist_for_paper_curve (rho L alpha : R) :
  0 < rho -> 1 <= L -> 0 < alpha -> 61 * (L * L) <= alpha ^ 4 ->
  18 * sqrt L + 8 * (alpha * alpha) + 14 <= rho * rho -> weights_exist rho L (PI / (4 * L)).
Proof.
  intros rho_pos L_pos alpha_pos enough small.
  apply weights_exist_if with (c := L) (back := / 2) (alpha := alpha); try assumption; try lra.
  intros m s is_copier its_scale short.
  apply (two_layer_copies tok A_rest B_rest a1 a2 b1 b2 (4 * L) 1 (/ 2) ltac:(lra) L m); try assumption; lra.
Qed.

(** Theorem 3.2 (paper; the architecture and the weights are reconstructed). *)
Theorem theorem_3_2_from_weights (rho : R) :
  10000 < rho -> let L := rho ^ 2 / (1000 * ln rho) in weights_exist rho L (PI / (4 * L)).
Proof.
  intros big L. assert (square : 10000 * 10000 < rho * rho) by (apply Rmult_le_0_lt_compat; lra).
  assert (log_big : 1 <= ln rho).
  { rewrite <- (ln_exp 1). pose proof exp_le_3. apply Rlt_le, ln_increasing; [apply exp_pos | lra]. }
  assert (log_small : ln rho <= rho).
  { pose proof (exp_ineq1_le (ln rho)) as above. rewrite exp_ln in above by lra. lra. }
  assert (L_value : L * (1000 * ln rho) = rho * rho) by (unfold L; field; lra).
  assert (L_pos : 1 <= L).
  { apply (Rmult_le_reg_r (1000 * ln rho)); [lra|]. rewrite L_value.
    assert (10000 * rho <= rho * rho) by (apply Rmult_le_compat_r; lra). lra. }
  assert (L_high : 1000 * L <= rho * rho).
  { rewrite <- L_value. assert (L * 1 <= L * ln rho) by (apply Rmult_le_compat_l; lra). lra. }
  apply weights_exist_for_paper_curve with (alpha := rho / 10); try lra.
  - replace ((rho / 10) ^ 4) with (rho * rho * (rho * rho) / 10000) by field.
    assert (1000 * L * (1000 * L) <= rho * rho * (rho * rho)) by (apply Rmult_le_compat; lra).
    assert (0 < L * L) by (apply Rmult_lt_0_compat; lra). lra.
  - assert (root : sqrt L <= L).
    { rewrite <- (sqrt_square L) at 2 by lra. apply sqrt_le_1_alt.
      assert (L * 1 <= L * L) by (apply Rmult_le_compat_l; lra). lra. }
    replace (rho / 10 * (rho / 10)) with (rho * rho / 100) by field. lra.
Qed.

(** The same frequency and the same shape of the curve without the logarithm: 146 times as far at rho = 10^4 (new). *)
Theorem theorem_3_2_without_log_from_weights (rho : R) :
  10000 < rho -> let L := rho ^ 2 / 63 in weights_exist rho L (PI / (4 * L)).
Proof.
  intros big L. assert (square : 10000 * 10000 < rho * rho) by (apply Rmult_le_0_lt_compat; lra).
  assert (L_value : L = rho * rho / 63) by (unfold L; field).
  set (alpha := rho * sqrt (124 / 1000)).
  assert (root_square : sqrt (124 / 1000) * sqrt (124 / 1000) = 124 / 1000) by (apply sqrt_sqrt; lra).
  assert (alpha_square : alpha * alpha = rho * rho * (124 / 1000)) by (rewrite <- root_square; unfold alpha; ring).
  apply weights_exist_for_paper_curve with (alpha := alpha); try lra.
  - apply Rmult_lt_0_compat; [lra | apply sqrt_lt_R0; lra].
  - replace (alpha ^ 4) with (alpha * alpha * (alpha * alpha)) by ring. rewrite alpha_square, L_value.
    assert (0 < rho * rho * (rho * rho)) by (apply Rmult_lt_0_compat; lra). lra.
  - rewrite alpha_square, L_value.
    assert (root : sqrt (rho * rho / 63) <= rho).
    { rewrite <- (sqrt_square rho) at 3 by lra. apply sqrt_le_1_alt. lra. }
    assert (10000 * rho <= rho * rho) by (apply Rmult_le_compat_r; lra). lra.
Qed.

(** With the centred curve of [CentredCurve.v]: 575 times as far at rho = 10^4 (new). *)
Theorem theorem_3_2_centred_from_weights (rho : R) :
  10000 < rho -> let L := rho ^ 2 / 16 in weights_exist rho L (2 / (5 * L)).
Proof.
  intros big L. assert (square : 10000 * 10000 < rho * rho) by (apply Rmult_le_0_lt_compat; lra).
  assert (L_value : L = rho * rho / 16) by (unfold L; field).
  set (alpha := rho * sqrt (124 / 1000)).
  assert (root_square : sqrt (124 / 1000) * sqrt (124 / 1000) = 124 / 1000) by (apply sqrt_sqrt; lra).
  assert (alpha_square : alpha * alpha = rho * rho * (124 / 1000)) by (rewrite <- root_square; unfold alpha; ring).
  apply weights_exist_if with (c := 15 * L) (back := L / 2 + 1) (alpha := alpha); try lra.
  - apply Rmult_lt_0_compat; [lra | apply sqrt_lt_R0; lra].
  - rewrite alpha_square, L_value.
    assert (root : sqrt (15 * (rho * rho / 16)) <= rho).
    { rewrite <- (sqrt_square rho) at 3 by lra. apply sqrt_le_1_alt. lra. }
    assert (10000 * rho <= rho * rho) by (apply Rmult_le_compat_r; lra). lra.
  - intros m s is_copier its_scale short.
    apply (centred_copies tok A_rest B_rest a1 a2 b1 b2 (4 * (15 * L)) 1 L m); try assumption; try lra.
    rewrite its_scale. replace (alpha ^ 4) with (alpha * alpha * (alpha * alpha)) by ring.
    rewrite alpha_square, L_value.
    assert (0 < rho * rho * (rho * rho)) by (apply Rmult_lt_0_compat; lra). lra.
Qed.

End Existence.
