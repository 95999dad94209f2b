(** * The anchor curve: how far apart the directions h_i are

    h_i is the unit vector along (exp f(i+1), exp f(i)); it turns with the difference D(i) = f(i+1) - f(i) alone.
    First for any f, then for one frequency, f r = c cos(beta (r - back)), then for the paper's constants.  The keys of
    A may be turned back by up to half a place: [back] = 0 is the plainest choice; with 1/2 the curve starts exactly in
    the middle, h_0 = (v1 + v2) / sqrt 2. *)

From Coq Require Import Reals List Lra Lia Arith.
From Copy Require Import Model Readout TwoLayer Neighbours.
Open Scope R_scope.

(** ** Any f *)

Lemma sinh_above x : 0 <= x -> 2 * x <= exp x - exp (- x).
Proof.
  intros [pos|<-]; [|rewrite Ropp_0; lra].
  destruct (MVT_cor2 sinh cosh 0 x pos) as (z & slope & _).
  { intros. apply derivable_pt_lim_sinh. }
  rewrite sinh_0 in slope. unfold sinh, cosh in slope.
  pose proof (exp_ineq1_le z). pose proof (exp_ineq1_le (- z)).
  assert (1 * x <= (exp z + exp (- z)) / 2 * x) by (apply Rmult_le_compat_r; lra). lra.
Qed.

Lemma sinh_square x : 4 * (x * x) <= (exp x - exp (- x)) * (exp x - exp (- x)).
Proof.
  destruct (Rle_dec 0 x) as [pos|neg].
  - pose proof (sinh_above x pos). replace (4 * (x * x)) with (2 * x * (2 * x)) by ring.
    apply Rmult_le_compat; lra.
  - pose proof (sinh_above (- x) ltac:(lra)) as low. rewrite Ropp_involutive in low.
    replace (4 * (x * x)) with (2 * - x * (2 * - x)) by ring.
    replace ((exp x - exp (- x)) * (exp x - exp (- x))) with ((exp (- x) - exp x) * (exp (- x) - exp x)) by ring.
    apply Rmult_le_compat; lra.
Qed.

(** 2 cosh *)
Definition two_cosh (x : R) : R := exp x + exp (- x).

Lemma two_cosh_le x y : - y <= x <= y -> two_cosh x <= two_cosh y.
Proof.
  intros [low high]. unfold two_cosh.
  assert (product : (exp y - exp x) * (1 - exp (- x) * exp (- y)) = exp y + exp (- y) - (exp x + exp (- x))).
  { assert (exp x * exp (- x) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
    assert (exp y * exp (- y) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
    transitivity (exp y - exp x - exp (- x) * (exp y * exp (- y)) + exp (- y) * (exp x * exp (- x))); [ring|].
    rewrite H, H0. ring. }
  assert (0 <= exp y - exp x) by (pose proof (exp_le x y high); lra).
  assert (exp (- x) * exp (- y) <= 1).
  { rewrite <- exp_plus, <- exp_0. apply exp_le. lra. }
  assert (0 <= (exp y - exp x) * (1 - exp (- x) * exp (- y))) by (apply Rmult_le_pos; lra). lra.
Qed.

Section AnyCurve.
Variable f : nat -> R.

Definition difference (r : nat) : R := f (S r) - f r.

Lemma norm_square_cosh r :
  norm f r * norm f r = exp (f (S r)) * exp (f r) * two_cosh (difference r).
Proof.
  rewrite norm_square. unfold two_cosh, difference.
  replace (- (f (S r) - f r)) with (f r - f (S r)) by ring.
  unfold Rminus. rewrite !exp_plus, !exp_Ropp.
  pose proof (exp_pos (f (S r))). pose proof (exp_pos (f r)). field. lra.
Qed.

(** The paper's way to write it: h_i is the unit vector along p v1 + (1 - p) v2, p the sigmoid of D(i). *)
Theorem h_of_sigmoid r :
  let p := / (1 + exp (- difference r)) in
  h1 f r = p / sqrt (p * p + (1 - p) * (1 - p)) /\ h2 f r = (1 - p) / sqrt (p * p + (1 - p) * (1 - p)).
Proof.
  intro p. set (a := exp (f (S r))). set (b := exp (f r)).
  assert (a_pos : 0 < a) by apply exp_pos. assert (b_pos : 0 < b) by apply exp_pos.
  pose proof (norm_positive f r) as norm_pos.
  assert (p_value : p = a / (a + b)).
  { unfold p, difference. replace (- (f (S r) - f r)) with (f r + - f (S r)) by ring.
    rewrite exp_plus, exp_Ropp. fold a b. field. split; lra. }
  assert (length : sqrt (p * p + (1 - p) * (1 - p)) = norm f r / (a + b)).
  { rewrite p_value, <- (sqrt_square (norm f r / (a + b))) by (apply Rlt_le, Rdiv_lt_0_compat; lra).
    f_equal. transitivity ((a * a + b * b) / ((a + b) * (a + b))); [field; lra|].
    unfold a at 1 2, b at 1 2. rewrite <- norm_square. field. lra. }
  rewrite length, p_value. unfold h1, h2. fold a b. split; field; lra.
Qed.

(** The cross product of h_i and h_j: their angle's sine. *)
Definition cross (i j : nat) : R := h1 f i * h2 f j - h2 f i * h1 f j.

Lemma cross_inner i j : cross i j * cross i j + inner f i j * inner f i j = 1.
Proof.
  unfold cross, inner. pose proof (h_unit f i) as one_i. pose proof (h_unit f j) as one_j.
  transitivity ((h1 f i * h1 f i + h2 f i * h2 f i) * (h1 f j * h1 f j + h2 f j * h2 f j)); [ring|].
  rewrite one_i, one_j. ring.
Qed.

(** sin^2 = sinh^2((D i - D j)/2) / (cosh D i  cosh D j) *)
Lemma cross_square i j :
  cross i j * cross i j * (two_cosh (difference i) * two_cosh (difference j)) =
  (exp ((difference i - difference j) / 2) - exp (- ((difference i - difference j) / 2))) *
  (exp ((difference i - difference j) / 2) - exp (- ((difference i - difference j) / 2))).
Proof.
  set (a := exp (f (S i))). set (b := exp (f i)). set (c := exp (f (S j))). set (d := exp (f j)).
  set (u := (difference i - difference j) / 2).
  assert (0 < a /\ 0 < b /\ 0 < c /\ 0 < d) as (a_pos & b_pos & c_pos & d_pos) by (repeat split; apply exp_pos).
  pose proof (norm_positive f i) as p_pos. pose proof (norm_positive f j) as q_pos.
  pose proof (norm_square_cosh i) as square_i. pose proof (norm_square_cosh j) as square_j. fold a b in square_i.
  fold c d in square_j.
  assert (u_square : exp u * exp u = a * d / (b * c)).
  { rewrite <- exp_plus. replace (u + u) with (f (S i) + f j + - f i + - f (S j)) by (unfold u, difference; field).
    rewrite !exp_plus, !exp_Ropp. fold a b c d. field. lra. }
  assert (u_inverse : exp (- u) * exp (- u) = b * c / (a * d)).
  { rewrite <- exp_plus. replace (- u + - u) with (f i + f (S j) + - f (S i) + - f j) by (unfold u, difference; field).
    rewrite !exp_plus, !exp_Ropp. fold a b c d. field. lra. }
  assert (u_one : exp u * exp (- u) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
  assert (E : (exp u - exp (- u)) * (exp u - exp (- u)) = a * d / (b * c) + b * c / (a * d) - 2).
  { rewrite <- u_square, <- u_inverse. transitivity (exp u * exp u + exp (- u) * exp (- u) - 2 * (exp u * exp (- u)));
    [ring|]. rewrite u_one. ring. }
  rewrite E. unfold cross, h1, h2. fold a b c d.
  replace (two_cosh (difference i)) with (norm f i * norm f i / (a * b)) by (rewrite square_i; field; lra).
  replace (two_cosh (difference j)) with (norm f j * norm f j / (c * d)) by (rewrite square_j; field; lra).
  field. repeat split; lra.
Qed.

(** From the step of D to the inner product. *)
Theorem inner_below i j bound :
  - bound <= difference i <= bound -> - bound <= difference j <= bound ->
  inner f i j <= 1 - (difference i - difference j) * (difference i - difference j) /
                     (2 * (two_cosh bound * two_cosh bound)).
Proof.
  intros range_i range_j. set (w := difference i - difference j).
  pose proof (two_cosh_le _ _ range_i) as le_i. pose proof (two_cosh_le _ _ range_j) as le_j.
  assert (pos : forall x, 0 < two_cosh x).
  { intro x. unfold two_cosh. pose proof (exp_pos x). pose proof (exp_pos (- x)). lra. }
  pose proof (pos (difference i)). pose proof (pos (difference j)). pose proof (pos bound).
  pose proof (cross_square i j) as square. fold w in square.
  pose proof (sinh_square (w / 2)) as above. rewrite <- square in above.
  pose proof (cross_inner i j) as one. destruct (inner_bounds f i j) as [inner_pos _].
  assert (cross_nonneg : 0 <= cross i j * cross i j) by apply Rle_0_sqr.
  set (K := two_cosh bound * two_cosh bound) in *.
  assert (K_pos : 0 < K) by now apply Rmult_lt_0_compat.
  assert (w * w <= cross i j * cross i j * K).
  { apply Rle_trans with (cross i j * cross i j * (two_cosh (difference i) * two_cosh (difference j))); [lra|].
    apply Rmult_le_compat_l; [assumption|]. apply Rmult_le_compat; lra. }
  set (v := w * w / (2 * K)).
  assert (v_small : 2 * v <= cross i j * cross i j).
  { apply (Rmult_le_reg_r K); [assumption|]. unfold v. replace (2 * (w * w / (2 * K)) * K) with (w * w) by (field; lra).
    assumption. }
  destruct (Rle_dec (inner f i j) (1 - v)) as [|no]; [assumption|exfalso].
  assert (0 <= inner f i j * inner f i j) by (apply Rmult_le_pos; lra).
  assert ((1 - v) * (1 - v) < inner f i j * inner f i j) by (apply Rmult_le_0_lt_compat; lra).
  assert (0 <= v * v) by apply Rle_0_sqr. lra.
Qed.

End AnyCurve.

(** ** One frequency *)

Definition one_frequency (c beta back : R) (r : nat) : R := c * cos (beta * (INR r - back)).

Section OneFrequency.
Variables c beta back : R.

Lemma difference_sine r :
  difference (one_frequency c beta back) r = - (2 * c * sin (beta / 2) * sin (beta * (INR r + / 2 - back))).
Proof.
  unfold difference, one_frequency. rewrite S_INR.
  replace (c * cos (beta * (INR r + 1 - back)) - c * cos (beta * (INR r - back))) with
    (c * (cos (beta * (INR r + 1 - back)) - cos (beta * (INR r - back)))) by ring.
  rewrite form2.
  replace ((beta * (INR r + 1 - back) - beta * (INR r - back)) / 2) with (beta / 2) by field.
  replace ((beta * (INR r + 1 - back) + beta * (INR r - back)) / 2) with (beta * (INR r + / 2 - back)) by field. ring.
Qed.

Lemma difference_step i j :
  difference (one_frequency c beta back) i - difference (one_frequency c beta back) j =
  4 * c * sin (beta / 2) * cos (beta * ((INR i + INR j + 1) / 2 - back)) * sin (beta * (INR j - INR i) / 2).
Proof.
  rewrite !difference_sine.
  replace (- (2 * c * sin (beta / 2) * sin (beta * (INR i + / 2 - back))) -
      - (2 * c * sin (beta / 2) * sin (beta * (INR j + / 2 - back)))) with
    (2 * c * sin (beta / 2) * (sin (beta * (INR j + / 2 - back)) - sin (beta * (INR i + / 2 - back)))) by ring.
  rewrite form4.
  replace ((beta * (INR j + / 2 - back) - beta * (INR i + / 2 - back)) / 2) with (beta * (INR j - INR i) / 2) by field.
  replace ((beta * (INR j + / 2 - back) + beta * (INR i + / 2 - back)) / 2) with
    (beta * ((INR i + INR j + 1) / 2 - back)) by field.
  ring.
Qed.

End OneFrequency.

(** ** Numbers *)

Lemma pi_bounds : 314 / 100 <= PI <= 31421 / 10000.
Proof.
  pose proof (PI_2_3_7_ineq 1) as [low high]. revert low high.
  unfold tg_alt, PI_2_3_7_tg, Ratan_seq. cbn. lra.
Qed.

Lemma sin_above a : 0 <= a <= 4 -> a - a * a * a / 6 <= sin a.
Proof.
  intros [low high]. destruct (pre_sin_bound a 0 low high) as [bound _]. revert bound.
  unfold sin_approx, sin_term. cbn. intro bound.
  eapply Rle_trans; [|exact bound]. right. field.
Qed.

Lemma sin_below a : 0 <= a <= 4 -> sin a <= a - a * a * a / 6 + a * a * a * a * a / 120.
Proof.
  intros [low high]. destruct (pre_sin_bound a 0 low high) as [_ bound]. revert bound.
  unfold sin_approx, sin_term. cbn. intro bound.
  eapply Rle_trans; [exact bound|]. right. field.
Qed.

Lemma exp_le_32 x : 0 <= x < 32 -> exp x <= (/ (1 - x / 32)) ^ 32.
Proof.
  intros [low high]. replace (exp x) with (exp (x / 32) ^ 32).
  - apply pow_incr. split; [apply Rlt_le, exp_pos|].
    rewrite <- (Rinv_inv (exp (x / 32))), <- exp_Ropp. apply Rinv_le_contravar; [lra|].
    pose proof (exp_ineq1_le (- (x / 32))). lra.
  - assert (power : forall k, exp (x / 32) ^ k = exp (INR k * (x / 32))).
    { induction k as [|k IH]; [cbn; now rewrite Rmult_0_l, exp_0|].
      cbn [pow]. rewrite IH, <- exp_plus. f_equal. rewrite S_INR. ring. }
    rewrite power. f_equal. cbn. lra.
Qed.

Lemma two_cosh_066 : two_cosh (66 / 100) <= 247 / 100.
Proof.
  unfold two_cosh.
  pose proof (exp_le_32 (66 / 100) ltac:(lra)). pose proof (exp_opp_le_32 (66 / 100) ltac:(lra)).
  assert ((/ (1 - 66 / 100 / 32)) ^ 32 <= 1949 / 1000) by (cbn [pow]; lra).
  assert ((/ (1 + 66 / 100 / 32)) ^ 32 <= 521 / 1000) by (cbn [pow]; lra). lra.
Qed.

(** ** The paper's constants: beta = pi / (4 L), c = L *)

Definition paper_curve (L back : R) : nat -> R := one_frequency L (PI / (4 * L)) back.

Section PaperCurve.
Variables L back : R.
Context (L_big : 2 <= L) (back_range : 0 <= back <= / 2).

Let beta := PI / (4 * L).
Let f := paper_curve L back.

Lemma beta_positive : 0 < beta.
Proof. apply Rdiv_lt_0_compat; [apply PI_RGT_0 | lra]. Qed.

Lemma beta_L : beta * L = PI / 4.
Proof. unfold beta. field. lra. Qed.

Lemma sin_half_beta : 9935 / 10000 * (beta / 2) <= sin (beta / 2) <= beta / 2.
Proof.
  pose proof beta_positive. pose proof beta_L. pose proof pi_bounds.
  assert (beta * 2 <= beta * L) by (apply Rmult_le_compat_l; lra).
  split; [|apply Rlt_le, sin_lt_x; lra].
  pose proof (sin_above (beta / 2) ltac:(lra)).
  assert (beta / 2 * (beta / 2) <= 1964 / 10000 * (1964 / 10000)) by (apply Rmult_le_compat; lra).
  assert (beta / 2 * (beta / 2) * (beta / 2) <= 1964 / 10000 * (1964 / 10000) * (beta / 2))
    by (apply Rmult_le_compat_r; lra). lra.
Qed.

(** D stays within 0.66. *)
Lemma difference_bound r :
  INR r + / 2 <= L * (5 / 4) -> - (66 / 100) <= difference f r <= 0.
Proof.
  intro small. unfold f, paper_curve. rewrite difference_sine. fold beta.
  pose proof beta_positive. pose proof beta_L. pose proof pi_bounds. pose proof (pos_INR r).
  assert (x_low : 0 <= beta * (INR r + / 2 - back)) by (apply Rmult_le_pos; lra).
  assert (x_high : beta * (INR r + / 2 - back) <= 982 / 1000).
  { apply Rle_trans with (beta * (L * (5 / 4))); [apply Rmult_le_compat_l; lra|]. lra. }
  set (x := beta * (INR r + / 2 - back)) in *.
  assert (sine_low : 0 <= sin x) by (apply sin_ge_0; lra).
  assert (sine_high : sin x <= 8326 / 10000).
  { apply Rle_trans with (sin (982 / 1000)); [apply sin_incr_1; lra|].
    pose proof (sin_below (982 / 1000) ltac:(lra)). lra. }
  pose proof sin_half_beta as [half_low half_high].
  assert (0 <= L * sin (beta / 2)) by (apply Rmult_le_pos; lra).
  assert (L * sin (beta / 2) <= L * (beta / 2)) by (apply Rmult_le_compat_l; lra).
  assert (0 <= L * sin (beta / 2) * sin x) by (now apply Rmult_le_pos).
  assert (L * sin (beta / 2) * sin x <= 3928 / 10000 * (8326 / 10000)) by (apply Rmult_le_compat; lra).
  lra.
Qed.

(** The step of D between i and j. *)
Lemma difference_apart i j (slope : R) :
  (i < j)%nat -> INR j <= L * (101 / 100) ->
  0 <= slope -> 492 / 1000 <= slope * slope -> slope <= cos (beta * ((INR i + INR j + 1) / 2 - back)) ->
  12202 / 72000 * ((INR j - INR i) * (INR j - INR i) / (L * L)) <=
  (difference f i - difference f j) * (difference f i - difference f j).
Proof.
  intros order high slope_pos slope_big slope_cos.
  unfold f, paper_curve. rewrite difference_step. fold beta.
  pose proof beta_positive. pose proof beta_L. pose proof pi_bounds. pose proof (pos_INR i).
  set (k := INR j - INR i). assert (k_pos : 0 < k) by (pose proof (lt_INR i j order); unfold k; lra).
  assert (k_high : k <= L * (101 / 100)) by (unfold k; lra).
  set (v := beta * k / 2).
  assert (v_high : v <= 3968 / 10000).
  { assert (beta * k <= beta * (L * (101 / 100))) by (apply Rmult_le_compat_l; lra). unfold v. lra. }
  assert (v_pos : 0 < v) by (unfold v; pose proof (Rmult_lt_0_compat _ _ H k_pos); lra).
  assert (sine_v : 9737 / 10000 * v <= sin v).
  { pose proof (sin_above v ltac:(lra)).
    assert (v * v <= 3968 / 10000 * (3968 / 10000)) by (apply Rmult_le_compat; lra).
    assert (v * v * v <= 3968 / 10000 * (3968 / 10000) * v) by (apply Rmult_le_compat_r; lra). lra. }
  pose proof sin_half_beta as [half_low _].
  set (C := cos _) in *.
  (* 4 L sin(beta/2) C sin v  >=  4 L (0.9935 beta/2) slope (0.9737 v) *)
  assert (first : 0 <= 4 * L * (9935 / 10000 * (beta / 2))) by (apply Rmult_le_pos; lra).
  assert (second : 4 * L * (9935 / 10000 * (beta / 2)) <= 4 * L * sin (beta / 2)) by (apply Rmult_le_compat_l; lra).
  assert (third : 4 * L * (9935 / 10000 * (beta / 2)) * slope <= 4 * L * sin (beta / 2) * C)
    by (apply Rmult_le_compat; lra).
  assert (fourth : 0 <= 4 * L * (9935 / 10000 * (beta / 2)) * slope) by (now apply Rmult_le_pos).
  assert (fifth : 4 * L * (9935 / 10000 * (beta / 2)) * slope * (9737 / 10000 * v) <= 4 * L * sin (beta / 2) * C *
    sin v)
    by (apply Rmult_le_compat; lra).
  set (low := 4 * L * (9935 / 10000 * (beta / 2)) * slope * (9737 / 10000 * v)) in *.
  assert (low_pos : 0 <= low) by (apply Rmult_le_pos; lra).
  apply Rle_trans with (low * low); [|apply Rmult_le_compat; lra].
  (* low = 0.9935 * 0.9737 * slope * (beta L)^2 k / L *)
  assert (value : low * low = (9935 / 10000 * (9737 / 10000)) * (9935 / 10000 * (9737 / 10000)) * (slope * slope) *
    ((PI / 4) * (PI / 4) * ((PI / 4) * (PI / 4))) * (k * k / (L * L))).
  { unfold low, v. rewrite <- beta_L. field. lra. }
  rewrite value.
  apply Rmult_le_compat_r.
  { apply Rlt_le, Rdiv_lt_0_compat; apply Rmult_lt_0_compat; lra. }
  assert (quarter : 785 / 1000 * (785 / 1000) <= PI / 4 * (PI / 4)) by (apply Rmult_le_compat; lra).
  assert (fourth_power : 785 / 1000 * (785 / 1000) * (785 / 1000 * (785 / 1000)) <= PI / 4 * (PI / 4) * (PI / 4 *
    (PI / 4)))
    by (apply Rmult_le_compat; lra).
  set (p4 := PI / 4 * (PI / 4) * (PI / 4 * (PI / 4))) in *.
  apply Rle_trans with ((9935 / 10000 * (9737 / 10000)) * (9935 / 10000 * (9737 / 10000)) * (492 / 1000) *
    (785 / 1000 * (785 / 1000) * (785 / 1000 * (785 / 1000)))); [lra|].
  apply Rmult_le_compat; lra.
Qed.

(** ** The lemma *)

(** 1 - <h_i, h_j> >= (j - i)^2 / (72 L^2), once the steps of D are long enough. *)
Lemma inner_from_steps i j (g : nat -> R) :
  - (66 / 100) <= difference g i <= 66 / 100 -> - (66 / 100) <= difference g j <= 66 / 100 ->
  12202 / 72000 * ((INR j - INR i) * (INR j - INR i) / (L * L)) <=
    (difference g i - difference g j) * (difference g i - difference g j) ->
  inner g i j <= 1 - (INR j - INR i) * (INR j - INR i) / (72 * (L * L)).
Proof.
  intros range_i range_j apart. pose proof (inner_below g i j (66 / 100) range_i range_j) as below.
  set (w := (difference g i - difference g j) * (difference g i - difference g j)) in *.
  set (K := two_cosh (66 / 100) * two_cosh (66 / 100)) in *.
  assert (two_cosh_pos : 0 < two_cosh (66 / 100)).
  { unfold two_cosh. pose proof (exp_pos (66 / 100)). pose proof (exp_pos (- (66 / 100))). lra. }
  assert (K_pos : 0 < K) by now apply Rmult_lt_0_compat.
  assert (K_small : K <= 247 / 100 * (247 / 100)) by (apply Rmult_le_compat; pose proof two_cosh_066; lra).
  set (q := (INR j - INR i) * (INR j - INR i) / (L * L)) in *.
  replace ((INR j - INR i) * (INR j - INR i) / (72 * (L * L))) with (q / 72) by (unfold q; field; lra).
  assert (q_pos : 0 <= q).
  { unfold q. apply Rmult_le_pos; [apply Rle_0_sqr|]. apply Rlt_le, Rinv_0_lt_compat, Rmult_lt_0_compat; lra. }
  apply Rle_trans with (1 - w / (2 * K)); [exact below|].
  enough (q / 72 <= w / (2 * K)) by lra.
  apply (Rmult_le_reg_r (2 * K)); [lra|]. replace (w / (2 * K) * (2 * K)) with w by (field; lra).
  apply Rle_trans with (q / 72 * (2 * (247 / 100 * (247 / 100)))); [apply Rmult_le_compat_l; lra|]. lra.
Qed.

End PaperCurve.

Lemma sqrt2_slope : 0 <= 1 / sqrt 2 /\ 1 / sqrt 2 * (1 / sqrt 2) = / 2.
Proof.
  assert (0 < sqrt 2) by (apply sqrt_lt_R0; lra). assert (square : sqrt 2 * sqrt 2 = 2) by (apply sqrt_sqrt; lra).
  split; [apply Rlt_le, Rdiv_lt_0_compat; lra|].
  transitivity (/ (sqrt 2 * sqrt 2)); [field; lra|]. now rewrite square.
Qed.

(** All pairs of sources, quadratic in their distance (new; the paper's lemma has the constant 1/(72 L^2) only). *)
Theorem anchor_curve_quadratic (L back : R) (i j : nat) :
  0 <= back <= / 2 -> (1 <= i < j)%nat -> INR j <= L ->
  inner (paper_curve L back) i j <= 1 - (INR j - INR i) * (INR j - INR i) / (72 * (L * L)).
Proof.
  intros back_range [i_pos order] high.
  assert (L_big : 2 <= L) by (pose proof (le_INR 2 j ltac:(lia)) as two; cbn in two; lra).
  pose proof (lt_INR i j order). pose proof (lt_INR 0 i ltac:(lia)) as i_low. cbn in i_low.
  assert (step : INR i + 1 <= INR j) by (rewrite <- S_INR; apply le_INR; lia).
  pose proof (difference_bound L back L_big back_range i ltac:(lra)).
  pose proof (difference_bound L back L_big back_range j ltac:(lra)).
  apply inner_from_steps with (L := L); [assumption | lra | lra |].
  destruct sqrt2_slope as [slope_pos slope_square].
  apply difference_apart with (slope := 1 / sqrt 2); try assumption; try lra.
  rewrite <- cos_PI4. pose proof (beta_positive L L_big) as beta_pos. pose proof (beta_L L L_big) as beta_L.
  pose proof pi_bounds. set (beta := PI / (4 * L)) in *.
  assert (0 <= beta * ((INR i + INR j + 1) / 2 - back)) by (apply Rmult_le_pos; lra).
  assert (beta * ((INR i + INR j + 1) / 2 - back) <= beta * L) by (apply Rmult_le_compat_l; lra).
  apply cos_decr_1; lra.
Qed.
