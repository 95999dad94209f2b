(** * The cases

    Each list names a few steps of a few strings, with multipliers.  A model that copies all strings would have a
    positive numerator in each of them; [Cancellation.v] adds them up and finds that the sum is not positive.

    A case is (string, step, multiplier); the step is counted from 1.  In every case the query token, the symbol
    written last, is 0.  The mirror images (0 and 1 exchanged) would do as well. *)

From Coq Require Import Ascii List String.
Import ListNotations.
Open Scope string_scope.

(** [bits "001"] is the string 0, 0, 1. *)
Fixpoint bits (text : string) : list bool :=
  match text with
  | EmptyString => []
  | String c rest => (c =? "1")%char :: bits rest
  end.

(** Length 6: the sum is exactly 0, whatever the tokens vote for. *)
Definition cases_any : list (list bool * nat * nat) := [
  (bits "000", 3, 1);
  (bits "0101", 2, 1);
  (bits "00100", 3, 1);
  (bits "001101", 2, 1)
].

(** Length 5: what is left is (vote of a 1 next to the query) - (vote of a 0 next to the query). *)
Definition cases_opposite : list (list bool * nat * nat) := [
  (bits "001", 3, 1);
  (bits "100", 3, 1);
  (bits "00011", 3, 1);
  (bits "00110", 3, 1)
].

(** Length 2: what is left is (vote of a 0) - (vote of a 1), both at the place of s_2 in the prompt. *)
Definition cases_reversed : list (list bool * nat * nat) := [
  (bits "00", 2, 1);
  (bits "01", 2, 1)
].

(** Length 5 where exactly one token stands between the string and its copy: the sum is exactly 0. *)
Definition cases_one_token : list (list bool * nat * nat) := [
  (bits "00", 2, 1);
  (bits "01", 2, 1);
  (bits "001", 3, 1);
  (bits "100", 3, 1);
  (bits "0101", 4, 1);
  (bits "1100", 4, 1);
  (bits "00011", 3, 1);
  (bits "10100", 3, 1)
].
