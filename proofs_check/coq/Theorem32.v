(** * Theorem 3.2: every string up to a length is copied

    The two-layer copier of [TwoLayer.v] with the paper's curve, beta = pi / (4 L) and c = L.  Its score scale S and the
    gap between the anchors of B and of A are free; [Weights.v] has weights that reach them. *)

From Coq Require Import Reals List Lra Lia Arith.
From Copy Require Import Model Readout TwoLayer Neighbours AnchorCurve.
Import ListNotations.
Open Scope R_scope.

Section Theorem32.
Context {T : Type}.
Variable tok : bool -> T.
Variables A_rest B_rest : list T.
Variables a1 a2 b1 b2 : T.
Variables gap size back : R.
Context (back_range : 0 <= back <= / 2).

Notation A := (A A_rest a1 a2).
Notation B := (B B_rest b1 b2).
Notation copier f m := (is_two_layer_copier tok A_rest B_rest a1 a2 b1 b2 f gap size m).
Notation leak f := (leak B_rest b1 b2 f gap).
Notation damping f := (damping B_rest b1 b2 f gap).

(** ** Any curve whose inner products fall off with the square of the distance (new) *)

(** The symbols written so far weigh less than 1/30 together. *)
Lemma few_outputs (n i : nat) (gap' : R) :
  (1 <= i <= n)%nat -> 30 * INR n < 1 + gap' -> INR (i - 1) * exp (- gap') < / 30.
Proof.
  intros range big. assert (1 <= INR n) by (apply (le_INR 1); lia). pose proof (pos_INR (i - 1)).
  assert (INR (i - 1) <= INR n) by (apply le_INR; lia).
  pose proof (exp_opp_le gap' ltac:(lra)) as decay.
  assert (inverse_pos : 0 < / (1 + gap')) by (apply Rinv_0_lt_compat; lra).
  apply Rle_lt_trans with (INR n * / (1 + gap')).
  - apply Rmult_le_compat; try assumption. apply Rlt_le, exp_pos.
  - apply (Rmult_lt_reg_r (1 + gap')); [lra|]. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

Lemma damping_above f n i : leak f n i <= / 8 -> 60 / 61 <= damping f n i.
Proof.
  intro small. pose proof (leak_positive B_rest b1 b2 f gap n i) as pos. unfold TwoLayer.damping.
  assert (square : leak f n i * leak f n i <= / 8 * / 8) by (apply Rmult_le_compat; lra).
  assert (nonneg : 0 < leak f n i * leak f n i) by now apply Rmult_lt_0_compat.
  assert (root : sqrt (1 + leak f n i * leak f n i) <= 61 / 60).
  { rewrite <- (sqrt_square (61 / 60)) by lra. apply sqrt_le_1_alt. lra. }
  assert (root_pos : 0 < sqrt (1 + leak f n i * leak f n i)) by (apply sqrt_lt_R0; lra).
  replace (60 / 61) with (/ (61 / 60)) by field. now apply Rinv_le_contravar.
Qed.

(** With a leak of at most lambda, which leaves at least omega of the scale: the sources must fall off steeply enough to
    weigh at most 1 - rest together, and the symbols written so far must weigh less than rest. *)
Lemma copies_if_sums_are_small (f : nat -> R) (m : two_layer T) (n : nat) (kappa lambda omega rest : R) :
  copier f m ->
  0 < kappa -> 0 < scale m -> lambda < 1 -> 0 < omega ->
  (forall i, (1 <= i <= n)%nat -> leak f n i <= lambda /\ omega <= damping f n i) ->
  (forall i j, (1 <= i < j)%nat -> (j <= n)%nat ->
     inner f i j <= 1 - kappa * ((INR j - INR i) * (INR j - INR i))) ->
  (forall t, scale m * omega * kappa <= t -> 2 * (exp (- t) / (1 - exp (- (3 * t)))) <= 1 - rest) ->
  (forall i gap', (1 <= i <= n)%nat -> scale m * omega * (1 - lambda) <= gap' -> INR (i - 1) * exp (- gap') < rest) ->
  forall s, length s = n -> copied tok A B (output_probability (layer2 m)) s.
Proof.
  intros is_copier kappa_pos scale_pos lambda_small omega_pos leaks falls sources_small outputs_small.
  apply (two_layer_copies_iff tok A_rest B_rest a1 a2 b1 b2 f gap size m is_copier).
  intros i range. destruct (leaks i range) as [_ damping_low].
  set (E := scale m * damping f n i).
  assert (E_scale : scale m * omega <= E) by (apply Rmult_le_compat_l; lra).
  assert (scale_omega : 0 < scale m * omega) by now apply Rmult_lt_0_compat.
  assert (E_kappa : scale m * omega * kappa <= E * kappa) by (apply Rmult_le_compat_r; lra).
  assert (E_gap : scale m * omega * (1 - lambda) <= E * (1 - lambda)) by (apply Rmult_le_compat_r; lra).
  assert (t_pos : 0 < E * kappa) by (apply Rmult_lt_0_compat; lra).
  assert (falls' : forall j, (1 <= j <= n)%nat -> j <> i ->
    inner f i j <= 1 - kappa * ((INR j - INR i) * (INR j - INR i))).
  { intros j inside other. destruct (Nat.lt_ge_cases i j) as [later|earlier]; [apply falls; lia|].
    specialize (falls j i ltac:(lia) ltac:(lia)). unfold inner in *. lra. }
  assert (self : inner f i i = 1) by apply h_unit.
  eapply Rle_lt_trans.
  - apply wrong_weight_of_neighbours with (t := E * kappa) (gap := E * (1 - lambda)); [assumption | assumption | |].
    + intros j inside other. specialize (falls' j inside other). unfold source. fold E. rewrite self.
      assert (E * inner f i j <= E * (1 - kappa * ((INR j - INR i) * (INR j - INR i))))
        by (apply Rmult_le_compat_l; lra).
      lra.
    + intros j inside. unfold source, output. fold E. rewrite self.
      destruct (leaks (j + 1)%nat ltac:(lia)) as [small _].
      pose proof (leak_positive B_rest b1 b2 f gap n (j + 1)) as leak_pos.
      destruct (damping_bounds B_rest b1 b2 f gap n (j + 1)) as [damping_pos damping_high].
      destruct (inner_bounds f i (n + length B + j)) as [inner_pos inner_high].
      assert (leak f n (j + 1) * damping f n (j + 1) <= lambda * 1) by (apply Rmult_le_compat; lra).
      assert (0 < leak f n (j + 1) * damping f n (j + 1)) by now apply Rmult_lt_0_compat.
      assert (leak f n (j + 1) * damping f n (j + 1) * inner f i (n + length B + j) <= lambda * 1 * 1)
        by (apply Rmult_le_compat; lra).
      assert (E * (leak f n (j + 1) * damping f n (j + 1) * inner f i (n + length B + j)) <= E * (lambda * 1 * 1))
        by (apply Rmult_le_compat_l; lra).
      lra.
  - pose proof (sources_small _ E_kappa). pose proof (outputs_small i _ range E_gap). lra.
Qed.

Theorem two_layer_copies_if_quadratic (f : nat -> R) (m : two_layer T) (n : nat) (kappa : R) :
  copier f m ->
  (forall i, (1 <= i <= n)%nat -> leak f n i <= / 8) ->
  (forall i j, (1 <= i < j)%nat -> (j <= n)%nat ->
     inner f i j <= 1 - kappa * ((INR j - INR i) * (INR j - INR i))) ->
  0 < kappa -> 61 / 72 <= scale m * kappa -> 36 * INR n <= scale m ->
  forall s, length s = n -> copied tok A B (output_probability (layer2 m)) s.
Proof.
  intros is_copier small_leak falls kappa_pos enough_scale enough_for_outputs s len.
  destruct (Nat.eq_dec n 0) as [->|some].
  { intros i range. rewrite len in range. lia. }
  assert (n_pos : 1 <= INR n) by (apply (le_INR 1); lia).
  apply copies_if_sums_are_small
    with (f := f) (n := n) (kappa := kappa) (lambda := / 8) (omega := 60 / 61) (rest := / 30); try assumption; try lra.
  - intros i range. split; [|apply damping_above]; now apply small_leak.
  - intros t above. pose proof (theta_small t ltac:(lra)). lra.
  - intros i gap' range above. apply (few_outputs n); [assumption | lra].
Qed.

(** ** The leak *)

Lemma norm_le f delta r i :
  f (S r) <= f (S i) + delta -> f r <= f i + delta -> norm f r <= exp delta * norm f i.
Proof.
  intros first second. apply exp_le in first, second. rewrite exp_plus in first, second.
  pose proof (exp_pos delta). pose proof (exp_pos (f (S r))). pose proof (exp_pos (f r)).
  pose proof (exp_pos (f (S i))). pose proof (exp_pos (f i)). pose proof (norm_positive f i).
  rewrite <- (sqrt_square (exp delta * norm f i)) by (apply Rmult_le_pos; lra).
  apply sqrt_le_1_alt.
  replace (exp delta * norm f i * (exp delta * norm f i)) with (exp delta * exp delta * (norm f i * norm f i)) by ring.
  rewrite norm_square.
  assert (exp (f (S r)) * exp (f (S r)) <= exp (f (S i)) * exp delta * (exp (f (S i)) * exp delta))
    by (apply Rmult_le_compat; lra).
  assert (exp (f r) * exp (f r) <= exp (f i) * exp delta * (exp (f i) * exp delta)) by (apply Rmult_le_compat; lra).
  lra.
Qed.

Lemma leak_below f delta n i :
  f (S (n + length B + i - 1)) <= f (S i) + delta -> f (n + length B + i - 1)%nat <= f i + delta ->
  delta + 3 <= gap -> leak f n i <= / 8.
Proof.
  intros first second enough. pose proof (norm_le f delta _ i first second) as less.
  pose proof (norm_positive f i) as pos. pose proof (exp_pos gap) as gap_pos. unfold TwoLayer.leak.
  apply (Rmult_le_reg_r (exp gap * norm f i)); [now apply Rmult_lt_0_compat|].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l by (apply Rgt_not_eq, Rmult_lt_0_compat; assumption).
  assert (eight : 8 * exp delta <= exp gap).
  { apply Rle_trans with (exp (delta + 3)); [|now apply exp_le].
    rewrite exp_plus. pose proof (exp_pos delta). pose proof (exp_ineq1_le 1) as two.
    assert (exp 3 = exp 1 * exp 1 * exp 1) by (rewrite <- !exp_plus; f_equal; ring).
    assert (2 * 2 <= exp 1 * exp 1) by (apply Rmult_le_compat; lra).
    assert (2 * 2 * 2 <= exp 1 * exp 1 * exp 1) by (apply Rmult_le_compat; lra).
    assert (exp delta * 8 <= exp delta * exp 3) by (apply Rmult_le_compat_l; lra). lra. }
  assert (8 * exp delta * norm f i <= exp gap * norm f i) by (apply Rmult_le_compat_r; lra). lra.
Qed.

(** A gap of 3 is enough while B is no longer than 2 L: the anchors of A are further away.  A gap of L + 3 is enough for
    every B. *)
Lemma leak_small (L : R) (n i : nat) :
  1 <= L -> INR n <= L -> (1 <= i <= n)%nat ->
  (3 <= gap /\ INR (length B) <= 2 * L) \/ L + 3 <= gap ->
  leak (paper_curve L back) n i <= / 8.
Proof.
  intros L_pos n_high range gaps. pose proof PI_RGT_0 as pi_pos.
  assert (beta_pos : 0 < PI / (4 * L)) by (apply Rdiv_lt_0_compat; lra).
  assert (beta_L : PI / (4 * L) * L = PI / 4) by (field; lra). set (beta := PI / (4 * L)) in *.
  assert (i_high : INR i <= L) by (pose proof (le_INR i n ltac:(lia)); lra).
  assert (i_low : 0 <= INR i) by apply pos_INR.
  destruct gaps as [[enough short]|enough].
  - assert (far : INR (n + length B + i) <= 4 * L) by (rewrite !plus_INR; lra).
    assert (decreasing : forall r r', (1 <= r <= r')%nat -> INR r' <= 4 * L -> paper_curve L back r' <=
      paper_curve L back r).
    { intros r r' [low order] high. apply le_INR in low, order. cbn [INR] in low.
      unfold paper_curve, one_frequency. fold beta. apply Rmult_le_compat_l; [lra|].
      assert (0 <= beta * (INR r - back)) by (apply Rmult_le_pos; lra).
      assert (beta * (INR r - back) <= beta * (INR r' - back)) by (apply Rmult_le_compat_l; lra).
      assert (beta * (INR r' - back) <= beta * (4 * L)) by (apply Rmult_le_compat_l; lra).
      apply cos_decr_1; lra. }
    apply leak_below with (delta := 0); [| |lra]; rewrite Rplus_0_r; apply decreasing; try lia.
    + eapply Rle_trans; [apply le_INR|exact far]. lia.
    + eapply Rle_trans; [apply le_INR|exact far]. lia.
  - assert (upper : forall r, paper_curve L back r <= L).
    { intro r. unfold paper_curve, one_frequency. fold beta. destruct (COS_bound (beta * (INR r - back))).
      assert (L * cos (beta * (INR r - back)) <= L * 1) by (apply Rmult_le_compat_l; lra). lra. }
    assert (lower : forall r, (1 <= r)%nat -> INR r <= L + 1 -> 0 <= paper_curve L back r).
    { intros r low high. apply le_INR in low. cbn [INR] in low. unfold paper_curve, one_frequency. fold beta.
      assert (0 <= beta * (INR r - back)) by (apply Rmult_le_pos; lra).
      assert (beta * (INR r - back) <= beta * (L + L)) by (apply Rmult_le_compat_l; lra).
      apply Rmult_le_pos; [lra|]. apply cos_ge_0; lra. }
    apply leak_below with (delta := L); [| |assumption].
    + pose proof (upper (S (n + length B + i - 1))). pose proof (lower (S i)). rewrite S_INR in *.
      specialize (H0 ltac:(lia) ltac:(lra)). lra.
    + pose proof (upper (n + length B + i - 1)%nat). pose proof (lower i ltac:(lia) ltac:(lra)). lra.
Qed.

(** ** The theorem *)

(** Every string of length at most L is copied, if the score scale is at least 61 L^2: no logarithm (new). *)
Theorem two_layer_copies (L : R) (m : two_layer T) (s : list bool) :
  copier (paper_curve L back) m ->
  (3 <= gap /\ INR (length B) <= 2 * L) \/ L + 3 <= gap ->
  61 * (L * L) <= scale m ->
  INR (length s) <= L ->
  copied tok A B (output_probability (layer2 m)) s.
Proof.
  intros is_copier gaps enough short. destruct (length s) as [|n'] eqn:len.
  { intros i range. rewrite len in range. lia. }
  set (n := S n') in *. assert (n_pos : 1 <= INR n) by (apply (le_INR 1); unfold n; lia).
  assert (square : 0 < L * L) by (apply Rmult_lt_0_compat; lra).
  assert (L <= L * L) by (rewrite <- (Rmult_1_r L) at 1; apply Rmult_le_compat_l; lra).
  apply two_layer_copies_if_quadratic with (f := paper_curve L back) (n := n) (kappa := / (72 * (L * L))).
  - assumption.
  - intros i range. apply leak_small; try assumption. lra.
  - intros i j order inside. assert (high : INR j <= L) by (apply Rle_trans with (INR n); [apply le_INR; lia |
      assumption]).
    pose proof (anchor_curve_quadratic L back i j back_range order high) as below. unfold Rdiv in below. lra.
  - apply Rinv_0_lt_compat. lra.
  - apply (Rmult_le_reg_r (72 * (L * L))); [lra|]. rewrite Rmult_assoc, Rinv_l by lra. lra.
  - lra.
  - exact len.
Qed.

(** Greedy generation from the prompt writes the string. *)
Theorem two_layer_generates (L : R) (m : two_layer T) (s : list bool) :
  copier (paper_curve L back) m ->
  (3 <= gap /\ INR (length B) <= 2 * L) \/ L + 3 <= gap ->
  61 * (L * L) <= scale m ->
  INR (length s) <= L ->
  generate tok (output_probability (layer2 m)) (A ++ map tok s ++ B) (length s) = s.
Proof.
  intros. apply generation_is_exact; [apply probabilities_add_up|]. now apply two_layer_copies with (L := L).
Qed.

(** The paper's constants: L0 = rho^2 / (1000 ln rho) and S = (rho/10)^4, a scale that its text does not show
    (reconstructed).  The curve may be made for any L up to L0, such as L0 rounded down. *)
Theorem theorem_3_2 (rho L : R) (m : two_layer T) (s : list bool) :
  10000 < rho -> L <= rho ^ 2 / (1000 * ln rho) ->
  copier (paper_curve L back) m ->
  (3 <= gap /\ INR (length B) <= 2 * L) \/ L + 3 <= gap ->
  scale m = (rho / 10) ^ 4 ->
  INR (length s) <= L ->
  copied tok A B (output_probability (layer2 m)) s.
Proof.
  intros big L_high is_copier gaps its_scale short. apply two_layer_copies with (L := L); try assumption.
  rewrite its_scale. pose proof (pos_INR (length s)).
  assert (log_big : 1 <= ln rho).
  { rewrite <- (ln_exp 1). pose proof exp_le_3. apply Rlt_le, ln_increasing; [apply exp_pos | lra]. }
  assert (log_square : 1 * 1 <= ln rho * ln rho) by (apply Rmult_le_compat; lra).
  apply Rle_trans with (61 * (rho ^ 2 / (1000 * ln rho) * (rho ^ 2 / (1000 * ln rho)))).
  { apply Rmult_le_compat_l; [lra|]. apply Rmult_le_compat; lra. }
  replace (61 * (rho ^ 2 / (1000 * ln rho) * (rho ^ 2 / (1000 * ln rho)))) with
    (rho ^ 4 * (61 / 1000000 * / (ln rho * ln rho))) by (field; lra).
  replace ((rho / 10) ^ 4) with (rho ^ 4 * / 10000) by field.
  assert (power : 0 < rho ^ 4) by (apply pow_lt; lra).
  assert (inverse : / (ln rho * ln rho) <= / (1 * 1)) by (apply Rinv_le_contravar; lra).
  apply Rmult_le_compat_l; lra.
Qed.

(** With the same scale and without the logarithm, L = rho^2 / 800 (new). *)
Theorem theorem_3_2_without_logarithm (rho : R) (m : two_layer T) (s : list bool) :
  0 < rho ->
  copier (paper_curve (rho ^ 2 / 800) back) m ->
  (3 <= gap /\ INR (length B) <= 2 * (rho ^ 2 / 800)) \/ rho ^ 2 / 800 + 3 <= gap ->
  scale m = (rho / 10) ^ 4 ->
  INR (length s) <= rho ^ 2 / 800 ->
  copied tok A B (output_probability (layer2 m)) s.
Proof.
  intros pos is_copier gaps its_scale short. apply two_layer_copies with (L := rho ^ 2 / 800); try assumption.
  rewrite its_scale. assert (power : 0 < rho ^ 4) by (apply pow_lt; lra).
  replace (61 * (rho ^ 2 / 800 * (rho ^ 2 / 800))) with (rho ^ 4 * (61 / 640000)) by field.
  replace ((rho / 10) ^ 4) with (rho ^ 4 * / 10000) by field. apply Rmult_le_compat_l; lra.
Qed.

End Theorem32.
