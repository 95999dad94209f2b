(** * Only the neighbours matter

    Scores that fall off with the square of the distance to the right key: the wrong keys weigh at most
    2 (e^-t + e^-4t + e^-9t + ..) <= 2 e^-t / (1 - e^-3t), however many there are.  So the gap to the nearest key need
    not grow with the length, and no logarithm is lost (new). *)

From Coq Require Import Reals List Lra Lia Arith.
From Copy Require Import Model Readout.
Open Scope R_scope.

Lemma sum_to_app f p q : sum_to f (p + q) = sum_to f p + sum_to (fun k => f (p + k)%nat) q.
Proof.
  induction q as [|q IH]; [rewrite Nat.add_0_r; cbn; ring|].
  rewrite Nat.add_succ_r. cbn [sum_to]. rewrite IH, Nat.add_succ_r. ring.
Qed.

Lemma sum_to_reverse f p : sum_to f p = sum_to (fun k => f (S p - k)%nat) p.
Proof.
  induction p as [|p IH]; [reflexivity|].
  change (sum_to f (S p) = sum_to (fun k => f (S (S p) - k)%nat) (1 + p)).
  rewrite sum_to_app. cbn [sum_to]. replace (S (S p) - 1)%nat with (S p) by lia. rewrite IH.
  rewrite Rplus_0_l, Rplus_comm. reflexivity.
Qed.

(** The places before i by their distance, and those after. *)
Lemma sum_except_by_distance i f n :
  (1 <= i <= n)%nat ->
  sum_except i f n = sum_to (fun k => f (i - k)%nat) (i - 1) + sum_to (fun k => f (i + k)%nat) (n - i).
Proof.
  intro range. unfold sum_except. replace n with (i - 1 + (1 + (n - i)))%nat at 1 by lia.
  rewrite !sum_to_app. cbn [sum_to]. replace (i - 1 + 1)%nat with i by lia. rewrite Nat.eqb_refl.
  rewrite sum_to_reverse.
  rewrite (sum_to_ext _ (fun k => f (i - k)%nat) (i - 1)).
  2:{ intros k inside. destruct (Nat.eqb_spec (S (i - 1) - k) i); [lia|]. f_equal. lia. }
  rewrite (sum_to_ext (fun k => if (i - 1 + (1 + k) =? i)%nat then 0 else f (i - 1 + (1 + k))%nat)
    (fun k => f (i + k)%nat) (n - i)).
  2:{ intros k inside. destruct (Nat.eqb_spec (i - 1 + (1 + k)) i); [lia|]. f_equal. lia. }
  ring.
Qed.

(** k^2 >= 3k - 2 for natural k >= 1, so a geometric series bounds the squares. *)
Lemma square_above_line k : (1 <= k)%nat -> 3 * INR k - 2 <= INR k * INR k.
Proof.
  intro pos. assert (0 <= (INR k - 1) * (INR k - 2)); [|lra].
  destruct k as [|[|k]]; [lia | cbn; lra|]. rewrite !S_INR. pose proof (pos_INR k).
  apply Rmult_le_pos; lra.
Qed.

Lemma geometric_bound t n :
  0 < t -> sum_to (fun k => exp (- (t * (3 * INR k - 2)))) n <= exp (- t) / (1 - exp (- (3 * t))).
Proof.
  intro pos. set (q := exp (- (3 * t))).
  assert (q_small : q < 1) by (rewrite <- exp_0; apply exp_increasing; lra).
  assert (exact : sum_to (fun k => exp (- (t * (3 * INR k - 2)))) n * (1 - q) =
    exp (- t) - exp (- (t * (3 * INR n + 1)))).
  { induction n as [|n IH].
    - cbn. rewrite Rmult_0_l. replace (t * (3 * 0 + 1)) with t by ring. ring.
    - cbn [sum_to]. rewrite Rmult_plus_distr_r, IH, S_INR. unfold q.
      replace (exp (- (t * (3 * (INR n + 1) - 2))) * (1 - exp (- (3 * t)))) with
        (exp (- (t * (3 * (INR n + 1) - 2))) - exp (- (t * (3 * (INR n + 1) - 2))) * exp (- (3 * t))) by ring.
      rewrite <- exp_plus.
      replace (- (t * (3 * (INR n + 1) - 2))) with (- (t * (3 * INR n + 1))) by ring.
      replace (- (t * (3 * INR n + 1)) + - (3 * t)) with (- (t * (3 * (INR n + 1) + 1))) by ring. ring. }
  pose proof (exp_pos (- (t * (3 * INR n + 1)))).
  apply (Rmult_le_reg_r (1 - q)); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

(** The weight of the wrong keys, for any scores. *)
Theorem wrong_weight_of_neighbours (source output : nat -> R) (n i : nat) (t gap : R) :
  0 < t -> (1 <= i <= n)%nat ->
  (forall j, (1 <= j <= n)%nat -> j <> i ->
     source j <= source i - t * ((INR j - INR i) * (INR j - INR i))) ->
  (forall j, (1 <= j < i)%nat -> output j <= source i - gap) ->
  wrong_weight source output n i <= 2 * (exp (- t) / (1 - exp (- (3 * t)))) + INR (i - 1) * exp (- gap).
Proof.
  intros pos range sources outputs. unfold wrong_weight. apply Rplus_le_compat.
  - rewrite sum_except_by_distance by assumption.
    assert (side : forall (place : nat -> nat) count,
      (forall k, (1 <= k <= count)%nat -> (1 <= place k <= n)%nat /\ place k <> i /\
         (INR (place k) - INR i) * (INR (place k) - INR i) = INR k * INR k) ->
      sum_to (fun k => exp (source (place k) - source i)) count <= exp (- t) / (1 - exp (- (3 * t)))).
    { intros place count good. apply Rle_trans with (sum_to (fun k => exp (- (t * (3 * INR k - 2)))) count).
      - apply sum_to_le. intros k inside. destruct (good k inside) as (there & other & square).
        apply exp_le. specialize (sources _ there other). rewrite square in sources.
        pose proof (square_above_line k ltac:(lia)).
        assert (t * (3 * INR k - 2) <= t * (INR k * INR k)) by (apply Rmult_le_compat_l; lra). lra.
      - now apply geometric_bound. }
    pose proof (side (fun k => i - k)%nat (i - 1)%nat) as before.
    pose proof (side (fun k => i + k)%nat (n - i)%nat) as behind. cbn beta in before, behind.
    enough (sum_to (fun k => exp (source (i - k)%nat - source i)) (i - 1) <= exp (- t) / (1 - exp (- (3 * t))) /\
      sum_to (fun k => exp (source (i + k)%nat - source i)) (n - i) <= exp (- t) / (1 - exp (- (3 * t)))) by lra.
    split.
    + apply before. intros k inside. repeat split; try lia. rewrite minus_INR by lia. ring.
    + apply behind. intros k inside. repeat split; try lia. rewrite plus_INR. ring.
  - rewrite <- sum_to_const. apply sum_to_le. intros j inside. apply exp_le.
    specialize (outputs j ltac:(lia)). lra.
Qed.

(** ** The number: t = 5/6 is enough, with 1/30 to spare *)

Lemma exp_opp_le x : 0 <= x -> exp (- x) <= / (1 + x).
Proof.
  intro pos. rewrite exp_Ropp. apply Rinv_le_contravar; [lra|]. apply exp_ineq1_le.
Qed.

(** e^-x <= (1 + x/32)^-32 *)
Lemma exp_opp_le_32 x : 0 <= x -> exp (- x) <= (/ (1 + x / 32)) ^ 32.
Proof.
  intro pos. replace (exp (- x)) with (exp (- (x / 32)) ^ 32).
  - apply pow_incr. split; [apply Rlt_le, exp_pos | apply exp_opp_le; lra].
  - assert (power : forall k, exp (- (x / 32)) ^ k = exp (INR k * - (x / 32))).
    { induction k as [|k IH]; [cbn; now rewrite Rmult_0_l, exp_0|].
      cbn [pow]. rewrite IH, <- exp_plus. f_equal. rewrite S_INR. ring. }
    rewrite power. f_equal. cbn. lra.
Qed.

Lemma theta_small t : 5 / 6 <= t -> 2 * (exp (- t) / (1 - exp (- (3 * t)))) <= 29 / 30.
Proof.
  intro big. set (x := exp (- t)).
  assert (cube : exp (- (3 * t)) = x * x * x).
  { unfold x. rewrite <- !exp_plus. f_equal. ring. }
  rewrite cube. assert (pos : 0 < x) by apply exp_pos.
  assert (small : x <= 44 / 100).
  { apply Rle_trans with (exp (- (5 / 6))); [apply exp_le; lra|].
    apply Rle_trans with ((/ (1 + 5 / 6 / 32)) ^ 32); [apply exp_opp_le_32; lra|].
    cbn [pow]. lra. }
  assert (x * x * x <= 44 / 100 * (44 / 100) * (44 / 100)).
  { apply Rmult_le_compat; try lra; [apply Rmult_le_pos; lra | apply Rmult_le_compat; lra]. }
  apply (Rmult_le_reg_r (1 - x * x * x)); [lra|].
  replace (2 * (x / (1 - x * x * x)) * (1 - x * x * x)) with (2 * x) by (field; lra). lra.
Qed.
