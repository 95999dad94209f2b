#!/bin/sh
# Compiles every proof from scratch and says what the theorems rest on. Nothing is written next to the sources.
#
#     ./check.sh          about a minute
#     ./check.sh --full   lets coqchk, Coq's separate checker, go over the compiled proofs and all of the library that
#                         they use as well: about two minutes more
#
# Exit status: 0 all theorems hold, resting on nothing but the axioms of Coq's real numbers; 1 not so; 2 no Coq, or a
# bad argument. Needs Coq 8.16 (Debian: apt-get install coq).
set -eu
export LC_ALL=C

# What Coq's own real analysis rests on: `Print Assumptions exp_increasing` names these four.
allowed='ClassicalDedekindReals.sig_forall_dec
ClassicalDedekindReals.sig_not_dec
FunctionalExtensionality.functional_extensionality_dep
Classical_Prop.classic'

forbidden='Admitted|admit|Axioms?|Parameters?|Conjectures?|Hypothes[ie]s|Abort|give_up|bypass_check|Unset|type-in-type|Load|Declare'

fail() { echo "FAILED: $*" >&2; exit 1; }

case "${1-}" in
  '' | --full) full=${1-} ;;
  *) echo "check.sh: argument '$1': only --full is allowed" >&2; exit 2 ;;
esac
command -v coqc >/dev/null || { echo "check.sh: coqc not found; on Debian: apt-get install coq" >&2; exit 2; }

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cp "$here"/*.v "$here/_CoqProject" "$work"
cd "$work"

files=$(grep '\.v$' _CoqProject)
[ "$(echo "$files" | sort)" = "$(ls -- *.v | sort)" ] || fail "_CoqProject does not list exactly the .v files"
if grep -nwE -- "$forbidden" *.v; then fail "a word that could let in an unproved statement"; fi

# Every theorem is asked about.
theorems=$(sed -n 's/^Theorem \([A-Za-z0-9_]*\).*/\1/p' ./*.v | sort)
asked=$(sed -n 's/^Print Assumptions \([A-Za-z0-9_]*\)\.$/\1/p' Assumptions.v)
[ -n "$theorems" ] && [ "$theorems" = "$(echo "$asked" | sort)" ] ||
  fail "Assumptions.v does not ask about exactly the theorems of the other files"

coqc --version | head -n 1
start=$(date +%s)
for file in $files; do
  coqc -q -Q . Copy "$file" >"$file.out" || fail "$file does not compile"
done
echo "compiled $(echo "$files" | grep -c .) files in $(($(date +%s) - start)) s"

# Every answer is there, and every axiom in the answers is one of the four.
[ "$(grep -cE '^(Axioms:|Closed under the global context)$' Assumptions.v.out)" -eq "$(echo "$asked" | wc -l)" ] ||
  fail "Print Assumptions did not answer for every theorem"
# A name stands at the start of a line, its type may go on in indented lines.
NAMES=$asked awk '
  BEGIN { split(ENVIRON["NAMES"], name, "\n") }
  /^(Axioms:|Closed under the global context)$/ { print "\n" name[++n] ": " ($1 == "Axioms:" ? "rests on" : "rests on nothing")
    next }
  /^[^ ]/ { print "  " $1 }' Assumptions.v.out
echo
others=$(awk '/^[^ ]/ && !/^(Axioms:|Closed under the global context)$/ { print $1 }' Assumptions.v.out |
  sort -u | grep -vxF -- "$allowed" || true)
[ -z "$others" ] || fail "rests on more than the axioms of the real numbers: $others"

if [ -n "$full" ]; then
  modules=$(echo "$files" | sed 's/\(.*\)\.v/Copy.\1/')
  # shellcheck disable=SC2086
  coqchk -silent -o -Q . Copy $modules >coqchk.out 2>&1 || { cat coqchk.out >&2; fail "coqchk"; }
  sed -n '/^\* /,$p' coqchk.out
  others=$(sed -n '/^\* Axioms:/,/^\* Constants/s/^    Coq\.\(Reals\.\|Logic\.\)\{0,1\}//p' coqchk.out |
    grep -vxF -- "$allowed" || true)
  [ -z "$others" ] || fail "coqchk finds further axioms: $others"
  [ "$(grep -c '<none>' coqchk.out)" = 3 ] || fail "coqchk finds a check that was turned off"
fi
echo "all $(echo "$asked" | grep -c .) theorems hold"
