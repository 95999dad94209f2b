(** * Theorem 4.1: the one-layer 2D-RoPE copier, exactly

    Newlines make rows: a newline ends its own row.  A token's row is the number of newlines before it, its column the
    number of tokens since the last of them.  Here B starts with the newline and no other token is one, so that s_j
    stands in row 0 and column a + j - 1, and the j-th symbol written in row 1 and column b + j - 2.

    The score depends on the differences of rows and of columns alone; [profile dr dc] may be any function of them, such
    as a sum of cosines.  It is the same for every token that asks and every symbol that is sought. *)

From Coq Require Import Reals List Lra Lia Arith ZArith.
From Copy Require Import Model Readout.
Import ListNotations.
Open Scope R_scope.

Section Grid.
Context {T : Type}.
Variable is_newline : T -> bool.

(** Row and column of a token with the tokens [before] before it. *)
Definition row (before : list T) : nat := length (filter is_newline before).

Fixpoint column_from (column : nat) (before : list T) : nat :=
  match before with
  | [] => column
  | x :: later => column_from (if is_newline x then 0 else S column) later
  end.
Definition column (before : list T) : nat := column_from 0 before.

(** The copier's score: of the key after [before], when the last of the tokens l asks. *)
Definition grid_readout (profile : Z -> Z -> R) (votes : T -> R) (after' : R -> R) : readout T := {|
  key_score := fun l before _ =>
    let asking := removelast l in
    profile (Z.of_nat (row before) - Z.of_nat (row asking))%Z
            (Z.of_nat (column before) - Z.of_nat (column asking))%Z;
  vote := votes;
  after := after'
|}.

Lemma row_app l l' : row (l ++ l') = (row l + row l')%nat.
Proof. unfold row. now rewrite filter_app, app_length. Qed.

Lemma column_app k l l' : column_from k (l ++ l') = column_from (column_from k l) l'.
Proof. revert k. induction l as [|x l IH]; intro k; cbn; [reflexivity | apply IH]. Qed.

Lemma row_plain l : (forall x, In x l -> is_newline x = false) -> row l = 0%nat.
Proof.
  unfold row. induction l as [|x l IH]; intro plain; [reflexivity|]. cbn.
  rewrite plain by now left. apply IH. intros. apply plain. now right.
Qed.

Lemma column_plain k l : (forall x, In x l -> is_newline x = false) -> column_from k l = (k + length l)%nat.
Proof.
  revert k. induction l as [|x l IH]; intros k plain; cbn; [lia|].
  rewrite plain by now left. rewrite IH by (intros; apply plain; now right). lia.
Qed.

Variable tok : bool -> T.
Variables A B_rest : list T.
Variable newline : T.
Notation B := (newline :: B_rest).

(** The layout: B has at least two tokens. *)
Context (newline_is : is_newline newline = true)
        (plain : forall x, In x (A ++ B_rest) \/ (exists y, x = tok y) -> is_newline x = false)
        (two : B_rest <> []).

Lemma plain_A x : In x A -> is_newline x = false.
Proof. intro. apply plain. left. apply in_or_app. now left. Qed.

Lemma plain_B x : In x B_rest -> is_newline x = false.
Proof. intro. apply plain. left. apply in_or_app. now right. Qed.

Lemma plain_symbols u x : In x (map tok u) -> is_newline x = false.
Proof. intro inside. apply plain. right. apply in_map_iff in inside. destruct inside as (y & <- & _). now exists y. Qed.

Lemma place_source u : row (A ++ map tok u) = 0%nat /\ column (A ++ map tok u) = (length A + length u)%nat.
Proof.
  assert (all : forall x, In x (A ++ map tok u) -> is_newline x = false).
  { intros x inside. apply in_app_or in inside. destruct inside; [now apply plain_A | now apply (plain_symbols u)]. }
  split; [now apply row_plain|]. unfold column. rewrite column_plain by assumption. rewrite app_length, map_length. lia.
Qed.

Lemma place_after_newline s l :
  (forall x, In x l -> is_newline x = false) ->
  row (A ++ map tok s ++ newline :: l) = 1%nat /\ column (A ++ map tok s ++ newline :: l) = length l.
Proof.
  intro plain_l. rewrite app_assoc. split.
  - rewrite row_app. destruct (place_source s) as [-> _]. unfold row. cbn. rewrite newline_is. cbn.
    fold (row l). now rewrite row_plain.
  - unfold column. rewrite column_app. cbn. rewrite newline_is. now rewrite column_plain.
Qed.

Variable profile : Z -> Z -> R.
Variable votes : T -> R.
Variable after' : R -> R.
Notation m := (grid_readout profile votes after').
Context (opposite : opposite_votes tok A B m).

(** Seen from the token that asks at step i: s_j is one row up and (j - i) - (b - a - 2) columns on, the j-th symbol
    written in the same row, j - i + 1 columns on; b = length B. *)
Definition grid_source (n i j : nat) : R :=
  profile (-1) (Z.of_nat (length A) + Z.of_nat j + 1 - Z.of_nat (length B) - Z.of_nat i + 1)%Z.
Definition grid_output (n i j : nat) : R := profile 0 (Z.of_nat j - Z.of_nat i + 1)%Z.

Lemma place_asking (s : list bool) (i : nat) :
  (1 <= i <= length s)%nat ->
  row (removelast (seen tok A B s i)) = 1%nat /\
  Z.of_nat (column (removelast (seen tok A B s i))) = (Z.of_nat (length B) + Z.of_nat i - 3)%Z.
Proof.
  intro range. unfold seen.
  set (u := firstn (i - 1) s). assert (len : length u = (i - 1)%nat) by (unfold u; rewrite firstn_length; lia).
  assert (nonempty : B_rest ++ map tok u <> []) by (now destruct B_rest).
  assert (E : removelast (A ++ map tok s ++ B ++ map tok u) =
              A ++ map tok s ++ newline :: removelast (B_rest ++ map tok u)).
  { cbn [app]. rewrite !app_assoc, removelast_app by discriminate.
    f_equal. cbn [removelast app]. destruct (B_rest ++ map tok u) eqn:empty; [contradiction | reflexivity]. }
  rewrite E. destruct (place_after_newline s (removelast (B_rest ++ map tok u))) as [-> ->].
  { intros x inside. assert (whole : In x (B_rest ++ map tok u)).
    { rewrite (app_removelast_last newline nonempty). apply in_or_app. now left. }
    apply in_app_or in whole. destruct whole; [now apply plain_B | now apply (plain_symbols u)]. }
  split; [reflexivity|].
  assert (count : length (B_rest ++ map tok u) = S (length (removelast (B_rest ++ map tok u)))).
  { rewrite (app_removelast_last newline nonempty) at 1. rewrite app_length. cbn. lia. }
  rewrite app_length, map_length, len in count. cbn [length]. lia.
Qed.

Lemma grid_source_score (s : list bool) (i j : nat) :
  (1 <= i <= length s)%nat -> (1 <= j <= length s)%nat ->
  source_score tok A B m s i j = grid_source (length s) i j.
Proof.
  intros range inside. unfold source_score, grid_readout, grid_source. cbn [key_score].
  destruct (place_asking s i range) as [-> ->]. destruct (place_source (firstn (j - 1) s)) as [-> ->].
  rewrite firstn_length, Nat.min_l by lia. f_equal. lia.
Qed.

Lemma grid_output_score (s : list bool) (i j : nat) :
  (1 <= i <= length s)%nat -> (1 <= j < i)%nat ->
  output_score tok A B m s i j = grid_output (length s) i j.
Proof.
  intros range inside. unfold output_score, grid_readout, grid_output. cbn [key_score app].
  destruct (place_asking s i range) as [-> ->].
  destruct (place_after_newline s (B_rest ++ map tok (firstn (j - 1) s))) as [-> ->].
  { intros x here. apply in_app_or in here. destruct here; [now apply plain_B | now apply (plain_symbols (firstn (j -
      1) s))]. }
  rewrite app_length, map_length, firstn_length, Nat.min_l by lia. cbn [length]. f_equal. lia.
Qed.

(** All strings of length n are copied iff at each step the wrong keys weigh less than the right one (reconstructed
    model; new as an equivalence). *)
Theorem grid_copies_iff (n : nat) :
  (forall s, length s = n -> copied tok A B (output_probability m) s) <->
  (forall i, (1 <= i <= n)%nat -> wrong_weight (grid_source n i) (grid_output n i) n i < 1).
Proof.
  apply (all_copied_iff tok A B m opposite); [exact grid_source_score | exact grid_output_score].
Qed.

Theorem grid_flip_iff (n i : nat) (y : bool) :
  (1 <= i <= n)%nat ->
  (right_at tok A B (output_probability m) (flip n i y) i <->
   wrong_weight (grid_source n i) (grid_output n i) n i < 1).
Proof.
  apply (flip_right_iff tok A B m opposite); [exact grid_source_score | exact grid_output_score].
Qed.

End Grid.

(** ** The sum of cosines

    Query and key meet at the wanted place, one row up and a +
      2 - b columns to the right: the score is S times the sum of
    the cosines of all frequencies times the distance from there. *)

Fixpoint sum_list (f : R -> R) (l : list R) : R :=
  match l with
  | [] => 0
  | x :: later => f x + sum_list f later
  end.

Definition cosines (frequencies : list R) (distance : Z) : R :=
  sum_list (fun beta => cos (beta * IZR distance)) frequencies.

(** How much less than its maximum the sum is. *)
Definition shortfall (frequencies : list R) (distance : Z) : R :=
  sum_list (fun beta => 1 - cos (beta * IZR distance)) frequencies.

Definition cosine_profile (S : R) (rows columns : list R) (a b : Z) (dr dc : Z) : R :=
  S * (cosines rows (dr + 1) + cosines columns (dc - (a + 2 - b))).

Lemma cosines_shortfall frequencies distance :
  cosines frequencies distance = INR (length frequencies) - shortfall frequencies distance.
Proof.
  unfold cosines, shortfall. induction frequencies as [|beta l IH]; cbn [sum_list length]; [cbn; ring|].
  rewrite IH, S_INR. ring.
Qed.

Lemma shortfall_zero frequencies : shortfall frequencies 0 = 0.
Proof.
  unfold shortfall. induction frequencies as [|beta l IH]; cbn [sum_list]; [reflexivity|].
  rewrite IH, Rmult_0_r, cos_0. ring.
Qed.

(** The design's condition for the length of the grid copier: with C(k) = [shortfall columns k], R = [shortfall rows 1],
    all strings of length n are copied iff, for every i,

      sum over j /= i of exp(-S C(j-i))  +  sum over j < i of exp(-S (R + C(b-a-1+j-i)))  <  1. *)
Theorem cosine_grid_copies_iff {T} (is_newline : T -> bool) (tok : bool -> T) (A B_rest : list T) (newline : T)
    (S : R) (rows columns : list R) (votes : T -> R) (after' : R -> R) (n : nat) :
  let a := Z.of_nat (length A) in
  let b := Z.of_nat (length (newline :: B_rest)) in
  let m := grid_readout is_newline (cosine_profile S rows columns a b) votes after' in
  is_newline newline = true ->
  (forall x, In x (A ++ B_rest) \/ (exists y, x = tok y) -> is_newline x = false) ->
  B_rest <> [] ->
  opposite_votes tok A (newline :: B_rest) m ->
  (forall s, length s = n -> copied tok A (newline :: B_rest) (output_probability m) s) <->
  (forall i, (1 <= i <= n)%nat ->
     sum_except i (fun j => exp (- (S * shortfall columns (Z.of_nat j - Z.of_nat i)))) n +
     sum_to (fun j => exp (- (S * (shortfall rows 1 + shortfall columns (b - a - 1 +
       Z.of_nat j - Z.of_nat i))))) (i - 1)
     < 1).
Proof.
  intros a b m is_one plain two opposite.
  eapply iff_trans; [exact (grid_copies_iff is_newline tok A B_rest newline is_one plain two
    (cosine_profile S rows columns a b) votes after' opposite n)|].
  assert (same : forall i, (1 <= i <= n)%nat ->
    wrong_weight (grid_source A B_rest newline (cosine_profile S rows columns a b) n i)
      (grid_output (cosine_profile S rows columns a b) n i) n i =
     sum_except i (fun j => exp (- (S * shortfall columns (Z.of_nat j - Z.of_nat i)))) n +
     sum_to (fun j => exp (- (S * (shortfall rows 1 + shortfall columns (b - a - 1 +
       Z.of_nat j - Z.of_nat i))))) (i - 1)).
  { intros i range. unfold wrong_weight, sum_except, grid_source, grid_output, cosine_profile. fold a b.
    assert (self : (a + Z.of_nat i + 1 - b - Z.of_nat i + 1 - (a + 2 - b) = 0)%Z) by lia.
    rewrite self, !cosines_shortfall. change (-1 + 1)%Z with 0%Z. change (0 + 1)%Z with 1%Z. rewrite !shortfall_zero.
    f_equal; apply sum_to_ext; intros j inside.
    - destruct (j =? i)%nat; [reflexivity|]. rewrite cosines_shortfall.
      replace (a + Z.of_nat j + 1 - b - Z.of_nat i + 1 - (a + 2 - b))%Z with (Z.of_nat j - Z.of_nat i)%Z by lia.
      f_equal. ring.
    - rewrite cosines_shortfall.
      replace (Z.of_nat j - Z.of_nat i + 1 - (a + 2 - b))%Z with (b - a - 1 + Z.of_nat j - Z.of_nat i)%Z by lia.
      f_equal. ring. }
  split; intros small i range; specialize (small i range); rewrite same in *; assumption.
Qed.
