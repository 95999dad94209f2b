(** * The paper's lemma, with its boundary indices

    In appendix I.3, h_0 = (v1 + v2) / sqrt 2, h_{-1} = v1, and for n < L0 and -1 <= i < j <= n + 1 the text claims
    <h_i, h_j> <= 1 - 1/(72 L0^2).  That is true for L0 >= 100, hence for every rho > 10^4.  (The copier itself needs
    only 1 <= i < j <= n, see [anchor_curve_quadratic], since the tokens of A and B have no vote.) *)

From Coq Require Import Reals List Lra Lia Arith ZArith.
From Copy Require Import Model Readout TwoLayer Neighbours AnchorCurve.
Open Scope R_scope.

Definition paper_h (L back : R) (k : Z) : R * R :=
  match k with
  | Zneg _ => (1, 0)
  | Z0 => (1 / sqrt 2, 1 / sqrt 2)
  | Zpos p => (h1 (paper_curve L back) (Pos.to_nat p), h2 (paper_curve L back) (Pos.to_nat p))
  end.

Definition dot (v w : R * R) : R := fst v * fst w + snd v * snd w.

Section PaperLemma.
Variables L back : R.
Context (L_big : 100 <= L) (back_range : 0 <= back <= / 2).

Let beta := PI / (4 * L).
Let f := paper_curve L back.

Lemma square_bounds : 0 < / (72 * (L * L)) <= / 720000.
Proof.
  assert (100 * 100 <= L * L) by (apply Rmult_le_compat; lra).
  split; [apply Rinv_0_lt_compat; lra | apply Rinv_le_contravar; lra].
Qed.

(** cos(pi/4 + pi/400) squared is at least 0.492. *)
Lemma cos_beyond : 9921 / 10000 * (1 / sqrt 2) <= cos (PI / 4 * (101 / 100)).
Proof.
  pose proof pi_bounds. set (eps := PI / 4 / 100).
  assert (eps_range : 0 < eps <= 786 / 100000) by (unfold eps; lra).
  replace (PI / 4 * (101 / 100)) with (PI / 4 + eps) by (unfold eps; field).
  rewrite cos_plus, cos_PI4, sin_PI4.
  assert (sine : sin eps <= eps) by (apply Rlt_le, sin_lt_x; lra).
  assert (half_low : 0 <= sin (eps / 2)) by (apply sin_ge_0; lra).
  assert (half : sin (eps / 2) <= eps / 2) by (apply Rlt_le, sin_lt_x; lra).
  assert (cosine : 1 - eps / 2 * eps <= cos eps).
  { replace eps with (2 * (eps / 2)) at 3 by field. rewrite cos_2a_sin.
    assert (sin (eps / 2) * sin (eps / 2) <= eps / 2 * (eps / 2)) by (apply Rmult_le_compat; lra). lra. }
  assert (eps * eps <= 786 / 100000 * eps) by (apply Rmult_le_compat_r; lra).
  destruct sqrt2_slope as [slope_pos _].
  assert (1 / sqrt 2 * (9921 / 10000) <= 1 / sqrt 2 * (cos eps - sin eps)) by (apply Rmult_le_compat_l; lra). lra.
Qed.

(** Pairs of places from 0 to n + 1, h_0 being what layer 1 makes there. *)
Lemma inner_to_next i j :
  (i < j)%nat -> INR j <= L + 1 -> inner f i j <= 1 - / (72 * (L * L)).
Proof.
  intros order high. pose proof (lt_INR i j order) as less. pose proof (pos_INR i).
  assert (step : INR i + 1 <= INR j) by (rewrite <- S_INR; apply le_INR; lia).
  assert (L_two : 2 <= L) by lra.
  pose proof (difference_bound L back L_two back_range i ltac:(lra)).
  pose proof (difference_bound L back L_two back_range j ltac:(lra)).
  assert (quadratic : inner f i j <= 1 - (INR j - INR i) * (INR j - INR i) / (72 * (L * L))).
  { apply inner_from_steps; try assumption; try (unfold f; lra).
    destruct sqrt2_slope as [slope_pos slope_square].
    apply difference_apart with (slope := 9921 / 10000 * (1 / sqrt 2)); try assumption; try lra.
    pose proof (beta_positive L L_two) as beta_pos. pose proof (beta_L L L_two) as beta_L. fold beta in beta_pos,
      beta_L.
    fold beta. pose proof pi_bounds. eapply Rle_trans; [exact cos_beyond|].
    assert (0 <= beta * ((INR i + INR j + 1) / 2 - back)) by (apply Rmult_le_pos; lra).
    assert (beta * ((INR i + INR j + 1) / 2 - back) <= beta * (L * (101 / 100))) by (apply Rmult_le_compat_l; lra).
    apply cos_decr_1; lra. }
  pose proof square_bounds. assert (1 * 1 <= (INR j - INR i) * (INR j - INR i)) by (apply Rmult_le_compat; lra).
  assert (1 * / (72 * (L * L)) <= (INR j - INR i) * (INR j - INR i) * / (72 * (L * L)))
    by (apply Rmult_le_compat_r; lra).
  unfold Rdiv in quadratic. lra.
Qed.

(** The exact (v1 + v2) / sqrt 2: a curve that is level between 0 and 1 has it as its h_0. *)
Definition levelled (r : nat) : R := match r with O => f 1%nat | S r' => f (S r') end.

Lemma levelled_h0 : h1 levelled 0 = 1 / sqrt 2 /\ h2 levelled 0 = 1 / sqrt 2.
Proof.
  unfold h1, h2, norm, levelled. pose proof (exp_pos (f 1%nat)) as pos.
  replace (exp (f 1%nat) * exp (f 1%nat) + exp (f 1%nat) * exp (f 1%nat)) with (exp (f 1%nat) * exp (f 1%nat) *
    2) by ring.
  rewrite sqrt_mult, sqrt_square by (try apply Rmult_le_pos; lra).
  assert (0 < sqrt 2) by (apply sqrt_lt_R0; lra). split; field; lra.
Qed.

Lemma inner_from_middle j :
  (1 <= j)%nat -> INR j <= L + 1 -> inner levelled 0 j <= 1 - / (72 * (L * L)).
Proof.
  intros low high. apply le_INR in low. cbn [INR] in low. assert (L_two : 2 <= L) by lra.
  assert (D0 : difference levelled 0 = 0) by (unfold difference, levelled; ring).
  assert (Dj : difference levelled j = difference f j).
  { unfold difference, levelled. destruct j; [cbn in low; lra | reflexivity]. }
  pose proof (difference_bound L back L_two back_range j ltac:(lra)) as bound. fold f in bound.
  assert (quadratic : inner levelled 0 j <= 1 - (INR j - INR 0) * (INR j - INR 0) / (72 * (L * L))).
  { apply inner_from_steps; rewrite ?D0, ?Dj; try lra. cbn [INR].
    clear bound. unfold f, paper_curve. rewrite difference_sine. fold beta.
    pose proof (beta_positive L L_two) as beta_pos. pose proof (beta_L L L_two) as beta_L.
    pose proof (sin_half_beta L L_two) as [half_low half_high]. fold beta in beta_pos, beta_L, half_low, half_high.
    pose proof pi_bounds. set (x := beta * (INR j + / 2 - back)).
    assert (x_low : beta * INR j <= x) by (apply Rmult_le_compat_l; lra).
    assert (0 < beta * INR j) by (apply Rmult_lt_0_compat; lra).
    assert (x_high : x <= 8 / 10).
    { apply Rle_trans with (beta * (L * (1015 / 1000))); [apply Rmult_le_compat_l; lra | lra]. }
    assert (sine : 89 / 100 * x <= sin x).
    { pose proof (sin_above x ltac:(lra)). assert (x * x <= 8 / 10 * (8 / 10)) by (apply Rmult_le_compat; lra).
      assert (x * x * x <= 8 / 10 * (8 / 10) * x) by (apply Rmult_le_compat_r; lra). lra. }
    assert (first : 2 * L * (9935 / 10000 * (beta / 2)) <= 2 * L * sin (beta / 2)) by (apply Rmult_le_compat_l; lra).
    assert (0 <= 2 * L * (9935 / 10000 * (beta / 2))) by (apply Rmult_le_pos; lra).
    set (low' := 2 * L * (9935 / 10000 * (beta / 2)) * (89 / 100 * (beta * INR j))).
    assert (second : low' <= 2 * L * sin (beta / 2) * sin x) by (apply Rmult_le_compat; lra).
    assert (0 <= low') by (apply Rmult_le_pos; lra).
    apply Rle_trans with (low' * low').
    2:{ replace ((0 - - (2 * L * sin (beta / 2) * sin x)) * (0 - - (2 * L * sin (beta / 2) * sin x))) with
          (2 * L * sin (beta / 2) * sin x * (2 * L * sin (beta / 2) * sin x)) by ring. apply Rmult_le_compat; lra. }
    replace (low' * low') with ((9935 / 10000 * (89 / 100)) * (9935 / 10000 * (89 / 100)) *
      ((PI / 4) * (PI / 4) * ((PI / 4) * (PI / 4))) * (INR j * INR j / (L * L))).
    2:{ unfold low'. rewrite <- beta_L. field. lra. }
    replace ((INR j - 0) * (INR j - 0) / (L * L)) with (INR j * INR j / (L * L)) by (field; lra).
    apply Rmult_le_compat_r; [apply Rlt_le, Rdiv_lt_0_compat; apply Rmult_lt_0_compat; lra|].
    assert (785 / 1000 * (785 / 1000) <= PI / 4 * (PI / 4)) by (apply Rmult_le_compat; lra).
    assert (785 / 1000 * (785 / 1000) * (785 / 1000 * (785 / 1000)) <= PI / 4 * (PI / 4) * (PI / 4 * (PI / 4)))
      by (apply Rmult_le_compat; lra). lra. }
  pose proof square_bounds. cbn [INR] in quadratic.
  assert (1 * 1 <= INR j * INR j) by (apply Rmult_le_compat; lra).
  assert (1 * / (72 * (L * L)) <= INR j * INR j * / (72 * (L * L))) by (apply Rmult_le_compat_r; lra).
  unfold Rdiv in quadratic. lra.
Qed.

(** h_j leans to v2, by at least an eighth of a turn from v1. *)
Lemma first_coordinate j : INR j <= L + 1 -> h1 f j <= 1 / sqrt 2.
Proof.
  intro high. assert (L_two : 2 <= L) by lra.
  pose proof (difference_bound L back L_two back_range j ltac:(lra)) as [_ negative].
  assert (order : exp (f (S j)) <= exp (f j)) by (apply exp_le; unfold difference in negative; fold f in negative; lra).
  assert (less : h1 f j <= h2 f j).
  { unfold h1, h2, Rdiv. apply Rmult_le_compat_r; [|assumption].
    apply Rlt_le, Rinv_0_lt_compat, norm_positive. }
  pose proof (h_unit f j). destruct (h_positive f j) as [pos _]. destruct sqrt2_slope as [slope_pos slope_square].
  destruct (Rle_dec (h1 f j) (1 / sqrt 2)) as [|no]; [assumption|exfalso].
  assert (h1 f j * h1 f j <= h2 f j * h2 f j) by (apply Rmult_le_compat; lra).
  assert (1 / sqrt 2 * (1 / sqrt 2) < h1 f j * h1 f j) by (apply Rmult_le_0_lt_compat; lra). lra.
Qed.

(** (paper) *)
Theorem paper_lemma (n : nat) (i j : Z) :
  INR n < L -> (-1 <= i < j)%Z -> (j <= Z.of_nat n + 1)%Z ->
  dot (paper_h L back i) (paper_h L back j) <= 1 - / (72 * (L * L)).
Proof.
  intros short [low order] high. pose proof square_bounds as square. destruct sqrt2_slope as [slope_pos slope_square].
  assert (slope_small : 1 / sqrt 2 <= 71 / 100).
  { destruct (Rle_dec (1 / sqrt 2) (71 / 100)) as [|no]; [assumption|exfalso].
    assert (71 / 100 * (71 / 100) < 1 / sqrt 2 * (1 / sqrt 2)) by (apply Rmult_le_0_lt_compat; lra). lra. }
  assert (near : forall p, (Zpos p <= Z.of_nat n + 1)%Z -> INR (Pos.to_nat p) <= L + 1).
  { intros p inside. assert (le : (Pos.to_nat p <= n + 1)%nat) by lia. apply le_INR in le. rewrite plus_INR in le.
    cbn [INR] in le. lra. }
  destruct i as [|p|p], j as [|q|q]; try lia; unfold dot, paper_h; cbn [fst snd].
  - pose proof (inner_from_middle (Pos.to_nat q) ltac:(lia) (near q high)) as below. unfold inner in below.
    destruct levelled_h0 as [-> ->] in below.
    assert (same : h1 levelled (Pos.to_nat q) = h1 f (Pos.to_nat q) /\ h2 levelled (Pos.to_nat q) =
      h2 f (Pos.to_nat q)).
    { destruct (Pos2Nat.is_succ q) as [k ->]. split; reflexivity. }
    destruct same as [E1 E2]. rewrite E1, E2 in below. exact below.
  - exact (inner_to_next (Pos.to_nat p) (Pos.to_nat q) ltac:(lia) (near q high)).
  - lra.
  - pose proof (first_coordinate (Pos.to_nat q) (near q high)). fold f. lra.
Qed.

End PaperLemma.
