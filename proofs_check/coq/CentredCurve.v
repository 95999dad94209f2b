(** * A better curve: one frequency, centred (new)

    The curve of the paper uses only a part of the quadrant, and S >= 61 L^2.  Here D runs over almost all of
    [-1.2, 1.2], along the steep part of a sine: beta = 2/(5L), c = 15 L, and the keys are turned so that the middle of
    the string is in the middle of the quadrant.  Then S >= 3.83 L^2 is enough. *)

From Coq Require Import Reals List Lra Lia Arith.
From Copy Require Import Model Readout TwoLayer Neighbours AnchorCurve Theorem32.
Import ListNotations.
Open Scope R_scope.

(** ** Numbers *)

Lemma exp_doubled x p q : exp x <= p -> p * p <= q -> exp (2 * x) <= q.
Proof.
  intros small square. replace (2 * x) with (x + x) by ring. rewrite exp_plus. pose proof (exp_pos x).
  apply Rle_trans with (p * p); [apply Rmult_le_compat; lra | assumption].
Qed.

Lemma exp_le_inverse x : 0 <= x < 1 -> exp x <= / (1 - x).
Proof.
  intros range. rewrite <- (Rinv_inv (exp x)), <- exp_Ropp. apply Rinv_le_contravar; [lra|].
  pose proof (exp_ineq1_le (- x)). lra.
Qed.

Lemma exp_minus_four_fifths : exp (- (4 / 5)) <= 449889941 / 1000000000.
Proof.
  replace (- (4 / 5)) with (2 * (2 * (2 * (2 * (2 * (2 * (2 * (2 * (- (4 / 5 / 256)))))))))) by field.
  apply exp_doubled with (670738355 / 1000000000); [|lra].
  apply exp_doubled with (818986175 / 1000000000); [|lra].
  apply exp_doubled with (904978549 / 1000000000); [|lra].
  apply exp_doubled with (951303605 / 1000000000); [|lra].
  apply exp_doubled with (975347940 / 1000000000); [|lra].
  apply exp_doubled with (987597053 / 1000000000); [|lra].
  apply exp_doubled with (993779177 / 1000000000); [|lra].
  apply exp_doubled with (996884736 / 1000000000); [|lra].
  eapply Rle_trans; [apply exp_opp_le; lra | lra].
Qed.

Lemma exp_plus_11921 : exp (11921 / 10000) <= 3303176151 / 1000000000.
Proof.
  replace (11921 / 10000) with (2 * (2 * (2 * (2 * (2 * (2 * (2 * (2 * (11921 / 10000 / 256))))))))) by field.
  apply exp_doubled with (1817464209 / 1000000000); [|lra].
  apply exp_doubled with (1348133602 / 1000000000); [|lra].
  apply exp_doubled with (1161091556 / 1000000000); [|lra].
  apply exp_doubled with (1077539584 / 1000000000); [|lra].
  apply exp_doubled with (1038046041 / 1000000000); [|lra].
  apply exp_doubled with (1018845445 / 1000000000); [|lra].
  apply exp_doubled with (1009378742 / 1000000000); [|lra].
  apply exp_doubled with (1004678427 / 1000000000); [|lra].
  eapply Rle_trans; [apply exp_le_inverse; lra | lra].
Qed.

Lemma exp_minus_11921 : exp (- (11921 / 10000)) <= 304424353 / 1000000000.
Proof.
  replace (- (11921 / 10000)) with (2 * (2 * (2 * (2 * (2 * (2 * (2 * (2 * (- (11921 / 10000 / 256)))))))))) by field.
  apply exp_doubled with (551746638 / 1000000000); [|lra].
  apply exp_doubled with (742796498 / 1000000000); [|lra].
  apply exp_doubled with (861856425 / 1000000000); [|lra].
  apply exp_doubled with (928362227 / 1000000000); [|lra].
  apply exp_doubled with (963515556 / 1000000000); [|lra].
  apply exp_doubled with (981588282 / 1000000000); [|lra].
  apply exp_doubled with (990751372 / 1000000000); [|lra].
  apply exp_doubled with (995364944 / 1000000000); [|lra].
  eapply Rle_trans; [apply exp_opp_le; lra | lra].
Qed.

Lemma two_cosh_11921 : 0 < two_cosh (11921 / 10000) <= 36077 / 10000.
Proof.
  unfold two_cosh. pose proof exp_plus_11921. pose proof exp_minus_11921.
  pose proof (exp_pos (11921 / 10000)). pose proof (exp_pos (- (11921 / 10000))). lra.
Qed.

(** t = 4/5 is just enough. *)
Lemma theta_just_small t : 4 / 5 <= t -> 2 * (exp (- t) / (1 - exp (- (3 * t)))) <= 99 / 100.
Proof.
  intro big. set (x := exp (- t)).
  assert (cube : exp (- (3 * t)) = x * x * x).
  { unfold x. rewrite <- !exp_plus. f_equal. ring. }
  rewrite cube. assert (pos : 0 < x) by apply exp_pos.
  assert (small : x <= 4499 / 10000).
  { pose proof exp_minus_four_fifths. apply Rle_trans with (exp (- (4 / 5))); [apply exp_le|]; lra. }
  assert (x * x * x <= 4499 / 10000 * (4499 / 10000) * (4499 / 10000)).
  { apply Rmult_le_compat; try lra; [apply Rmult_le_pos; lra | apply Rmult_le_compat; lra]. }
  apply (Rmult_le_reg_r (1 - x * x * x)); [lra|].
  replace (2 * (x / (1 - x * x * x)) * (1 - x * x * x)) with (2 * x) by (field; lra). lra.
Qed.

Lemma sine_of_a_fifth y : - / 5 <= y <= / 5 -> - (19867 / 100000) <= sin y <= 19867 / 100000.
Proof.
  intros range. pose proof pi_bounds.
  assert (top : sin (/ 5) <= 19867 / 100000) by (pose proof (sin_below (/ 5) ltac:(lra)); lra).
  assert (bottom : sin (- / 5) = - sin (/ 5)) by apply sin_neg.
  split.
  - apply Rle_trans with (sin (- / 5)); [lra | apply sin_incr_1; lra].
  - apply Rle_trans with (sin (/ 5)); [apply sin_incr_1; lra | assumption].
Qed.

Lemma cosine_of_a_fifth y : - / 5 <= y <= / 5 -> 98 / 100 <= cos y.
Proof.
  intros range. pose proof pi_bounds.
  assert (value : 98 / 100 <= cos (/ 5)).
  { replace (/ 5) with (2 * / 10) by field. rewrite cos_2a_sin.
    assert (0 <= sin (/ 10)) by (apply sin_ge_0; lra). assert (sin (/ 10) < / 10) by (apply sin_lt_x; lra).
    assert (sin (/ 10) * sin (/ 10) <= / 10 * / 10) by (apply Rmult_le_compat; lra). lra. }
  apply Rle_trans with (cos (/ 5)); [assumption|].
  destruct (Rle_dec 0 y); [|rewrite <- (cos_neg y)]; apply cos_decr_1; lra.
Qed.

(** ** The curve *)

Definition centred_curve (L : R) : nat -> R := one_frequency (15 * L) (2 / (5 * L)) (L / 2 + 1).

Section CentredCurve.
Variable L : R.
Context (L_big : 2 <= L).

Let beta := 2 / (5 * L).
Let f := centred_curve L.

Lemma centred_beta : 0 < beta /\ beta * L = 2 / 5.
Proof. unfold beta. split; [apply Rdiv_lt_0_compat; lra | field; lra]. Qed.

Lemma centred_half : 9983 / 10000 * (beta / 2) <= sin (beta / 2) <= beta / 2.
Proof.
  destruct centred_beta as [beta_pos beta_L].
  assert (beta * 2 <= beta * L) by (apply Rmult_le_compat_l; lra).
  split; [|apply Rlt_le, sin_lt_x; lra].
  pose proof (sin_above (beta / 2) ltac:(lra)).
  assert (beta / 2 * (beta / 2) <= / 10 * / 10) by (apply Rmult_le_compat; lra).
  assert (beta / 2 * (beta / 2) * (beta / 2) <= / 10 * / 10 * (beta / 2)) by (apply Rmult_le_compat_r; lra). lra.
Qed.

Lemma centred_angle x : - (L / 2) <= x <= L / 2 -> - / 5 <= beta * x <= / 5.
Proof.
  intros [low high]. destruct centred_beta as [beta_pos beta_L].
  assert (beta * x <= beta * (L / 2)) by (apply Rmult_le_compat_l; lra).
  assert (beta * - (L / 2) <= beta * x) by (apply Rmult_le_compat_l; lra). lra.
Qed.

Lemma centred_difference r :
  1 <= INR r <= L -> - (11921 / 10000) <= difference f r <= 11921 / 10000.
Proof.
  intros range. unfold f, centred_curve. rewrite difference_sine. fold beta.
  destruct centred_beta as [beta_pos beta_L]. destruct centred_half as [half_low half_high].
  destruct (sine_of_a_fifth (beta * (INR r + / 2 - (L / 2 + 1))) ltac:(apply centred_angle; lra)) as [low high].
  set (sine := sin (beta * (INR r + / 2 - (L / 2 + 1)))) in *.
  assert (factor_low : 0 <= 2 * (15 * L) * sin (beta / 2)) by (apply Rmult_le_pos; lra).
  assert (factor_high : 2 * (15 * L) * sin (beta / 2) <= 6).
  { assert (2 * (15 * L) * sin (beta / 2) <= 2 * (15 * L) * (beta / 2)) by (apply Rmult_le_compat_l; lra). lra. }
  set (factor := 2 * (15 * L) * sin (beta / 2)) in *.
  assert (factor * sine <= factor * (19867 / 100000)) by (apply Rmult_le_compat_l; lra).
  assert (factor * - (19867 / 100000) <= factor * sine) by (apply Rmult_le_compat_l; lra). lra.
Qed.

Lemma centred_apart i j :
  (1 <= i < j)%nat -> INR j <= L ->
  5439 / 1000 * ((INR j - INR i) * (INR j - INR i) / (L * L)) <=
  (difference f i - difference f j) * (difference f i - difference f j).
Proof.
  intros [i_pos order] high. unfold f, centred_curve. rewrite difference_step. fold beta.
  destruct centred_beta as [beta_pos beta_L]. destruct centred_half as [half_low _].
  pose proof (lt_INR i j order) as less. apply le_INR in i_pos. cbn [INR] in i_pos.
  set (k := INR j - INR i). assert (k_pos : 0 < k) by (unfold k; lra). assert (k_high : k <= L) by (unfold k; lra).
  pose proof (cosine_of_a_fifth (beta * ((INR i + INR j + 1) / 2 - (L / 2 + 1)))
    ltac:(apply centred_angle; lra)) as cosine. set (C := cos _) in *.
  set (v := beta * k / 2).
  assert (v_pos : 0 < v) by (unfold v; pose proof (Rmult_lt_0_compat _ _ beta_pos k_pos); lra).
  assert (v_high : v <= / 5).
  { assert (beta * k <= beta * L) by (apply Rmult_le_compat_l; lra). unfold v. lra. }
  assert (sine_v : 9933 / 10000 * v <= sin v).
  { pose proof (sin_above v ltac:(lra)).
    assert (v * v <= / 5 * / 5) by (apply Rmult_le_compat; lra).
    assert (v * v * v <= / 5 * / 5 * v) by (apply Rmult_le_compat_r; lra). lra. }
  assert (first : 119796 / 10000 <= 4 * (15 * L) * sin (beta / 2)).
  { assert (4 * (15 * L) * (9983 / 10000 * (beta / 2)) <= 4 * (15 * L) * sin (beta / 2))
      by (apply Rmult_le_compat_l; lra). lra. }
  assert (second : 119796 / 10000 * (98 / 100) <= 4 * (15 * L) * sin (beta / 2) * C) by (apply Rmult_le_compat; lra).
  assert (third : 119796 / 10000 * (98 / 100) * (9933 / 10000 * v) <= 4 * (15 * L) * sin (beta / 2) * C * sin v)
    by (apply Rmult_le_compat; lra).
  set (low := 119796 / 10000 * (98 / 100) * (9933 / 10000 * v)) in *.
  assert (low_pos : 0 <= low) by (unfold low; lra).
  apply Rle_trans with (low * low); [|apply Rmult_le_compat; lra].
  replace (k * k / (L * L)) with (25 * (v * v)).
  2:{ unfold v, beta. field. lra. }
  unfold low. assert (0 < v * v) by (now apply Rmult_lt_0_compat). lra.
Qed.

End CentredCurve.

Theorem centred_curve_quadratic (L : R) (i j : nat) :
  (1 <= i < j)%nat -> INR j <= L ->
  inner (centred_curve L) i j <= 1 - 2089 / 10000 / (L * L) * ((INR j - INR i) * (INR j - INR i)).
Proof.
  intros order high.
  assert (L_big : 2 <= L) by (pose proof (le_INR 2 j ltac:(lia)) as two; cbn in two; lra).
  pose proof (lt_INR i j ltac:(lia)) as less. pose proof (le_INR 1 i ltac:(lia)) as i_low. cbn in i_low.
  pose proof (inner_below (centred_curve L) i j (11921 / 10000)
    (centred_difference L L_big i ltac:(lra)) (centred_difference L L_big j ltac:(lra))) as below.
  pose proof (centred_apart L L_big i j order high) as apart.
  destruct two_cosh_11921 as [cosh_pos cosh_high].
  set (w := (difference _ i - difference _ j) * _) in *. set (K := two_cosh _ * _) in *.
  assert (K_pos : 0 < K) by now apply Rmult_lt_0_compat.
  assert (K_high : K <= 36077 / 10000 * (36077 / 10000)) by (apply Rmult_le_compat; lra).
  set (q := (INR j - INR i) * (INR j - INR i) / (L * L)) in *.
  replace (2089 / 10000 / (L * L) * ((INR j - INR i) * (INR j - INR i))) with (2089 / 10000 * q)
    by (unfold q; field; lra).
  assert (q_pos : 0 <= q).
  { unfold q. apply Rmult_le_pos; [apply Rle_0_sqr|]. apply Rlt_le, Rinv_0_lt_compat, Rmult_lt_0_compat; lra. }
  apply Rle_trans with (1 - w / (2 * K)); [exact below|].
  enough (2089 / 10000 * q <= w / (2 * K)) by lra.
  apply (Rmult_le_reg_r (2 * K)); [lra|]. replace (w / (2 * K) * (2 * K)) with w by (field; lra).
  apply Rle_trans with (2089 / 10000 * q * (2 * (36077 / 10000 * (36077 / 10000)))); [|lra].
  apply Rmult_le_compat_l; lra.
Qed.

(** ** The copier *)

Section Copier.
Context {T : Type}.
Variable tok : bool -> T.
Variables A_rest B_rest : list T.
Variables a1 a2 b1 b2 : T.
Variables gap size : R.

Notation A := (A A_rest a1 a2).
Notation B := (B B_rest b1 b2).
Notation copier f m := (is_two_layer_copier tok A_rest B_rest a1 a2 b1 b2 f gap size m).
Notation leak f := (leak B_rest b1 b2 f gap).
Notation damping f := (damping B_rest b1 b2 f gap).

Lemma damping_near_one f n i : leak f n i <= / 1000 -> 1 - / 1000000 <= damping f n i.
Proof.
  intro small. pose proof (leak_positive B_rest b1 b2 f gap n i) as pos. unfold TwoLayer.damping.
  assert (square : leak f n i * leak f n i <= / 1000 * / 1000) by (apply Rmult_le_compat; lra).
  assert (nonneg : 0 < leak f n i * leak f n i) by now apply Rmult_lt_0_compat.
  assert (root : sqrt (1 + leak f n i * leak f n i) <= 1 + / 1000000).
  { rewrite <- (sqrt_square (1 + / 1000000)) by lra. apply sqrt_le_1_alt. lra. }
  assert (root_pos : 0 < sqrt (1 + leak f n i * leak f n i)) by (apply sqrt_lt_R0; lra).
  apply Rle_trans with (/ (1 + / 1000000)); [lra | now apply Rinv_le_contravar].
Qed.

(** Written symbols, at most n - 1 of them, lie so far below that they weigh less than a hundredth together. *)
Lemma outputs_weigh_little (n i : nat) (gap' : R) :
  (1 <= i <= n)%nat -> 37 / 10 * (INR n * INR n) <= gap' -> INR (i - 1) * exp (- gap') < / 100.
Proof.
  intros range big. destruct (Nat.eq_dec n 1) as [one|more].
  { replace (i - 1)%nat with 0%nat by lia. cbn [INR]. lra. }
  assert (n_two : 2 <= INR n) by (apply (le_INR 2); lia).
  assert (2 * INR n <= INR n * INR n) by (apply Rmult_le_compat_r; lra).
  assert (count : INR (i - 1) <= INR n) by (apply le_INR; lia). pose proof (pos_INR (i - 1)).
  set (z := 1 + gap' / 4). assert (z_big : 1 + 37 / 20 * INR n <= z) by (unfold z; lra).
  assert (decay : exp (- gap') <= / z * / z * (/ z * / z)).
  { replace (- gap') with (- (gap' / 4) + - (gap' / 4) + (- (gap' / 4) + - (gap' / 4))) by field.
    rewrite !exp_plus. pose proof (exp_pos (- (gap' / 4))) as pos. pose proof (exp_opp_le (gap' / 4) ltac:(lra)) as one.
    fold z in one.
    assert (two : exp (- (gap' / 4)) * exp (- (gap' / 4)) <= / z * / z) by (apply Rmult_le_compat; lra).
    apply Rmult_le_compat; try assumption; apply Rmult_le_pos; lra. }
  assert (z_pos : 0 < z) by lra.
  assert (z_cube : 100 < z * z * z).
  { assert (47 / 10 * (47 / 10) <= z * z) by (apply Rmult_le_compat; lra).
    assert (47 / 10 * (47 / 10) * (47 / 10) <= z * z * z) by (apply Rmult_le_compat; lra). lra. }
  apply Rle_lt_trans with (INR n * (/ z * / z * (/ z * / z))).
  { apply Rmult_le_compat; try assumption. apply Rlt_le, exp_pos. }
  apply (Rmult_lt_reg_r (z * z * z * z)); [apply Rmult_lt_0_compat; lra|].
  replace (INR n * (/ z * / z * (/ z * / z)) * (z * z * z * z)) with (INR n) by (field; lra).
  assert (100 * z < z * z * z * z) by (apply Rmult_lt_compat_r; lra). lra.
Qed.

(** A gap of 30 L + 10 keeps the leak below a thousandth for every B. *)
Lemma centred_leak (L : R) (n i : nat) :
  0 < L -> 30 * L + 10 <= gap -> leak (centred_curve L) n i <= / 1000.
Proof.
  intros L_pos enough.
  assert (bounds : forall r, - (15 * L) <= centred_curve L r <= 15 * L).
  { intro r. unfold centred_curve, one_frequency.
    destruct (COS_bound (2 / (5 * L) * (INR r - (L / 2 + 1)))) as [low high].
    set (C := cos _) in *.
    assert (15 * L * C <= 15 * L * 1) by (apply Rmult_le_compat_l; lra).
    assert (15 * L * -1 <= 15 * L * C) by (apply Rmult_le_compat_l; lra). lra. }
  set (r := (n + length B + i - 1)%nat).
  pose proof (bounds (S r)). pose proof (bounds r). pose proof (bounds (S i)). pose proof (bounds i).
  pose proof (norm_le (centred_curve L) (30 * L) r i ltac:(lra) ltac:(lra)) as less.
  pose proof (norm_positive (centred_curve L) i) as pos. pose proof (exp_pos gap) as gap_pos.
  unfold TwoLayer.leak. fold r.
  apply (Rmult_le_reg_r (exp gap * norm (centred_curve L) i)); [now apply Rmult_lt_0_compat|].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l by (apply Rgt_not_eq, Rmult_lt_0_compat; assumption).
  assert (thousand : 1000 * exp (30 * L) <= exp gap).
  { apply Rle_trans with (exp (30 * L + 10)); [|now apply exp_le].
    rewrite exp_plus. pose proof (exp_pos (30 * L)).
    assert (power : 1000 <= exp 10).
    { assert (base : 32 <= exp 5).
      { assert (four : 2 * 2 <= exp 2).
        { replace 2 with (1 + 1) at 3 by ring. rewrite exp_plus. pose proof (exp_ineq1_le 1).
          apply Rmult_le_compat; lra. }
        replace 5 with (2 + 2 + 1) by ring. rewrite !exp_plus. pose proof (exp_ineq1_le 1).
        assert (2 * 2 * (2 * 2) <= exp 2 * exp 2) by (apply Rmult_le_compat; lra).
        assert (2 * 2 * (2 * 2) * 2 <= exp 2 * exp 2 * exp 1) by (apply Rmult_le_compat; lra). lra. }
      replace 10 with (5 + 5) by ring. rewrite exp_plus.
      assert (32 * 32 <= exp 5 * exp 5) by (apply Rmult_le_compat; lra). lra. }
    assert (exp (30 * L) * 1000 <= exp (30 * L) * exp 10) by (apply Rmult_le_compat_l; lra). lra. }
  assert (1000 * exp (30 * L) * norm (centred_curve L) i <= exp gap * norm (centred_curve L) i)
    by (apply Rmult_le_compat_r; lra). lra.
Qed.

(** Every string of length at most L is copied, if the score scale is at least 3.83 L^2. *)
Theorem centred_copies (L : R) (m : two_layer T) (s : list bool) :
  copier (centred_curve L) m -> 30 * L + 10 <= gap -> 383 / 100 * (L * L) <= scale m -> INR (length s) <= L ->
  copied tok A B (output_probability (layer2 m)) s.
Proof.
  intros is_copier enough_gap enough short. destruct (length s) as [|n'] eqn:len.
  { intros i range. rewrite len in range. lia. }
  set (n := S n') in *. assert (n_pos : 1 <= INR n) by (apply (le_INR 1); unfold n; lia).
  assert (square : 0 < L * L) by (apply Rmult_lt_0_compat; lra).
  assert (n_square : INR n * INR n <= L * L) by (apply Rmult_le_compat; lra).
  set (kappa := 2089 / 10000 / (L * L)).
  assert (kappa_pos : 0 < kappa) by (apply Rdiv_lt_0_compat; lra).
  assert (scale_kappa : 80001 / 100000 <= scale m * kappa).
  { apply (Rmult_le_reg_r (L * L)); [assumption|].
    replace (scale m * kappa * (L * L)) with (scale m * (2089 / 10000)) by (unfold kappa; field; lra). lra. }
  apply (copies_if_sums_are_small tok A_rest B_rest a1 a2 b1 b2 gap size)
    with (f := centred_curve L) (n := n) (kappa := kappa) (lambda := / 1000) (omega := 1 - / 1000000) (rest := / 100);
    try assumption; try lra.
  - intros i range. assert (small : leak (centred_curve L) n i <= / 1000) by (apply centred_leak; lra).
    split; [assumption | now apply damping_near_one].
  - intros i j order inside. apply centred_curve_quadratic; [assumption|].
    apply Rle_trans with (INR n); [apply le_INR; lia | assumption].
  - intros t above. pose proof (theta_just_small t ltac:(lra)). lra.
  - intros i gap' range above. apply (outputs_weigh_little n); [assumption | lra].
Qed.

End Copier.
