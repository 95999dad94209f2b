"""Theorem 3.2's claims: the two-layer copier for given norm budgets and for all of them, and how far none gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from constructions import (
    LONGEST_TWO_LAYER_REPLAY,
    TwoLayerCopier,
    ball_difference,
    build_two_layer_copier,
    replay_two_layer,
)
from proofs_check.claims._claim import Claim, Status, Task
from proofs_check.claims._theorem_4_1 import flip_string, power_of_ten, replay_document, short_length, witness_document
from proofs_check.documents import weights_input, write_certificate
from theory import InputError, LengthBound, paper_two_layer_length, trained_task, two_layer_length
from theory.grid import SingleFlip
from theory.numbers import Label, describe
from theory.task import spell
from theory.two_layer import (
    LEAST_BUDGET,
    LEMMA_FACTOR,
    LENGTH_FACTOR,
    LengthProof,
    all_budgets,
    anchor_lemma,
    log_attention_share,
    norm_scale,
    plane_curve_ceiling,
    prove_length,
)

THEOREM = "3.2"

#: Said in every statement about a budget outside the theorem's range.
BEYOND = "; beyond the hypotheses of Theorem 3.2"

#: The length that the paper prints.
PRINTED_LENGTH = "rho^2/(1000 ln rho)"

PRINTED_LEMMA = "1 - 1/(72 L0^2)"

#: The sharp copiers that are reported: variant and number of turning pairs.
SHARP: tuple[tuple[str, int], ...] = (("sharp", 1), ("sharp", 16), ("shared", 1), ("shared", 16))

#: Best score scale of each variant over rho^4, with nothing spent on the first layer.
BEST_SCALE = {"sharp": Fraction(1, 64), "shared": Fraction(1, 32)}

#: The string of the trained layout that the construction gets wrong when the anchors are repeated.
REPEATED_WITNESS = ((0, 1), 2)

FORMS = {
    "paper": "the paper's constants",
    "sharp": "separate planes",
    "shared": "a shared plane with a marker",
    "repeated": "repeated anchors, the trained layout",
}


@dataclass(frozen=True)
class TwoLayerParameters:
    """One norm budget.

    Attributes:
        rho: the norm budget.
        a, b: layout.
        out: directory of the certificates and weights.
    """

    rho: Fraction
    a: int
    b: int
    out: Path

    @property
    def within_theorem(self) -> bool:
        """Do the hypotheses of Theorem 3.2 hold?"""
        return self.rho > LEAST_BUDGET and self.a >= 2 and self.b >= 2

    def stem(self, variant: str, pairs: int) -> str:
        """Beginning of the file names of one copier."""
        size = "" if variant in ("paper", "repeated") else f"-pairs-{pairs}"
        return f"two-layer-rho-{str(self.rho).replace('/', '_')}-a-{self.a}-b-{self.b}-{variant}{size}"

    def copier(self, variant: str, pairs: int = 1) -> TwoLayerCopier:
        """A copier of this budget; `repeated` has the trained layout's a and b."""
        a, b = (2, 3) if variant == "repeated" else (self.a, self.b)
        return build_two_layer_copier(self.rho, a, b, variant, pairs=pairs, beyond_theorem=True)


def two_layer_universal_claims(out: Path) -> list[Task]:
    """The claims that depend on no argument."""
    all_rho = "for all rho > 10^4: norm, lemma and length of the ideal copier"
    layout = "the paper's construction covers the trained layout"
    return [
        Task("3.2/all-budgets", THEOREM, all_rho, partial(_all_budgets, out)),
        Task("3.2/repeated-anchors", THEOREM, layout, partial(_repeated_anchors, out)),
    ]


def two_layer_claims(parameters: TwoLayerParameters) -> list[Task]:
    """The claims about one norm budget."""

    def task(name: str, about: str, decide: Callable[..., Claim], *arguments: Any) -> Task:
        return Task(f"3.2/{name}", THEOREM, about, partial(decide, parameters, *arguments), parameters.rho)

    return [
        task("norm", "every two-layer copier reported has norm <= rho", _norm),
        task("lemma", "the anchor-curve lemma for the stored weights", _lemma),
        task("all-strings", "weights with the paper's constants copy every string up to L0", _all_strings),
        *(
            task(f"length/{variant}-{pairs}", f"how far {_pairs_of(pairs)}, {FORMS[variant]}, copy", _sharp_length,
                 variant, pairs)
            for variant, pairs in SHARP
        ),
        task("trained-layout", "a repaired construction copies the trained layout", _trained_layout),
        task("plane-ceiling", "how far no curve in a quadrant of a plane gets", _plane_ceiling),
        task("attention-share", "no token's share of attention exceeds a constant over T", _share_ceiling),
    ]  # fmt: skip


def _pairs_of(pairs: int) -> str:
    return "one frequency" if pairs == 1 else f"{pairs} frequencies"


def _certificate(path: Path, kind: str, inputs: dict[str, Any], evidence: dict[str, Any], claim: dict[str, Any]) -> str:
    """Write a certificate, accepted by the checker; returns its file name."""
    write_certificate(path, kind, inputs, evidence, claim)
    return path.name


def _saved(parameters: TwoLayerParameters, copier: TwoLayerCopier, stem: str) -> dict[str, Any]:
    """The `inputs` of certificates about a copier, whose weights are saved beside them."""
    name = f"{stem}.safetensors"
    return weights_input(name, copier.save(parameters.out / name))


def _all_budgets(out: Path) -> Claim:
    proof = all_budgets()
    holds = proof.holds(LEMMA_FACTOR)
    inputs = {"rho_above": str(LEAST_BUDGET), "length_factor": str(LENGTH_FACTOR)}
    path, claim = out / "two-layer-all-budgets.json", {"denominator": LEMMA_FACTOR}
    return Claim(
        id="3.2/all-budgets",
        theorem=THEOREM,
        label="reconstructed",
        method="ball",
        status="PROVED" if holds else "UNDECIDED",
        expected="PROVED",
        statement="For all rho > 10^4 and all a, b >= 2: the ideal two-layer copier (real arithmetic; alpha = rho/10, "
        "S = alpha^4, beta = pi/(4 N), C = N; N = floor(rho^2/(1000 ln rho))) has parameter norm <= rho, satisfies the "
        "lemma <h_i, h_j> <= 1 - 1/(72 N^2), and copies every binary string of length <= N.",
        figures={
            "proof": "every inequality is monotone in rho; these are its two sides at rho = 10^4",
            "least_length": proof.least_length,
            "lemma_constant": f"1/{float(1 / proof.curvature):.2f}, where 1/{LEMMA_FACTOR} is claimed",
            "log_weight_of_wrong_sources": describe(proof.sources),
            "log_weight_of_outputs": describe(proof.outputs),
            "square_norm_over_rho_square": describe(proof.norm),
            "rho": "all",
        },
        certificate=_certificate(path, "two-layer-all-budgets", inputs, {}, claim) if holds else None,
        printed=PRINTED_LENGTH,
        ours="all rho > 10^4" if holds else "-",
    )


def _repeated_anchors(out: Path) -> Claim:
    copier = build_two_layer_copier(LEAST_BUDGET + 1, task=trained_task(), allow_repeated_anchors=True)
    string, step = np.array(REPEATED_WITNESS[0], dtype=np.int64), REPEATED_WITNESS[1]
    difference, outcome = ball_difference(copier, string, step), replay_two_layer(copier, string, step)
    name, certificate = "two-layer-repeated-anchors.safetensors", None
    refuted = bool(difference <= 0) and outcome.wrong is not False
    if refuted:
        inputs = weights_input(name, copier.save(out / name))
        path = out / "two-layer-repeated-anchors.json"
        certificate = _certificate(path, "two-layer-wrong-step", inputs, {}, {"string": spell(string), "step": step})
    return Claim(
        id="3.2/repeated-anchors",
        theorem=THEOREM,
        label="paper",
        method="ball",
        status="REFUTED" if refuted else "UNDECIDED",
        expected="REFUTED",
        statement="The reconstructed construction covers the trained layout <n> <I:> s <n> <I:> <O:> s (the text: a = "
        "2, b = 3 is in scope), whose token <I:> is both A_a and B_{b-1} and is given both roles. (This refutes the "
        "construction for that layout; 3.2/trained-layout is about another one.)",
        figures={
            "rho": str(copier.rho),
            "witness": {"string": spell(string), "step": step, "logit_right_minus_wrong": describe(difference)},
            "replay": replay_document(outcome),
        },
        certificate=certificate,
        printed="a = 2, b = 3",
        ours=f"wrong at {spell(string)}" if refuted else "-",
    )


def _norm(parameters: TwoLayerParameters) -> Claim:
    variants = [("paper", 1), *SHARP, ("repeated", 1)]
    certificates, figures, largest = [], {}, Fraction(0)
    for variant, pairs in variants:
        copier = _buildable(parameters, variant, pairs)
        if copier is None:
            continue
        stem = parameters.stem(variant, pairs)
        square = copier.square_norm()
        largest = max(largest, square)
        figures[f"{variant}, {pairs} pairs"] = float(square / parameters.rho**2)
        if square <= parameters.rho**2:
            claim = {"norm_at_most": str(parameters.rho)}
            inputs = _saved(parameters, copier, stem)
            certificates.append(_certificate(parameters.out / f"{stem}-norm.json", "weights-norm", inputs, {}, claim))
    return Claim(
        id="3.2/norm",
        theorem=THEOREM,
        label="reconstructed",
        method="exact",
        status=_applicable("PROVED" if largest <= parameters.rho**2 else "REFUTED", bool(figures)),
        expected="PROVED",
        statement=f"The stored parameters of every two-layer copier reported here have norm at most {parameters.rho}.",
        figures={
            "rho": str(parameters.rho),
            "square_norm_over_rho_square": figures,
            "certificates": certificates,
            **({} if figures else {"reason": "this budget affords no two-layer copier"}),
        },
        printed="norm <= rho",
        ours=f"{len(certificates)} copiers" if certificates else "-",
    )


def _buildable(parameters: TwoLayerParameters, variant: str, pairs: int = 1) -> TwoLayerCopier | None:
    """The copier, or None where the budget or the layout does not allow it."""
    try:
        return parameters.copier(variant, pairs)
    except InputError:
        return None


def _applicable(status: Status, applicable: bool) -> Status:
    return status if applicable else "NOT_APPLICABLE"


def _not_applicable(
    parameters: TwoLayerParameters, name: str, label: Label, statement: str, printed: str = PRINTED_LENGTH
) -> Claim:
    reason = "Theorem 3.2 needs a, b >= 2 and rho^2 >= 1000 ln rho"
    if parameters.a >= 2 and parameters.b >= 2:
        reason = f"rho = {parameters.rho} affords no two-layer copier of this kind"
    return Claim(
        id=f"3.2/{name}", theorem=THEOREM, label=label, method="ball", status="NOT_APPLICABLE", expected=None,
        statement=statement, figures={"rho": str(parameters.rho), "reason": reason},
        printed=printed,
    )  # fmt: skip


def _lemma(parameters: TwoLayerParameters) -> Claim:
    statement = "The anchor-curve lemma for the stored weights"
    copier = _buildable(parameters, "paper")
    if copier is None:
        return _not_applicable(parameters, "lemma", "paper", f"{statement}.", PRINTED_LEMMA)
    length, denominator = copier.length, LEMMA_FACTOR * copier.length**2
    found = anchor_lemma(copier.scores(), length, denominator)
    stem, certificate = parameters.stem("paper", 1), None
    figures: dict[str, Any] = {"rho": str(parameters.rho), "length": length, "denominator": denominator}
    if found.holds and found.least_step is not None:
        figures["least_step_times_length"] = float(found.least_step * length)
        evidence = {"step_at_least": str(found.least_step)}
        claim = {"length": length, "denominator": denominator}
        certificate = _of_weights(parameters, copier, stem, "lemma", "anchor-curve-lemma", evidence, claim)
    if found.pair is not None and found.excess is not None:
        i, j = found.pair
        figures["witness"] = {"i": i, "j": j, "excess": describe(found.excess)}
        claim = {"i": i, "j": j, "denominator": denominator}
        certificate = _of_weights(parameters, copier, stem, "lemma-pair", "anchor-curve-pair", {}, claim)
    return Claim(
        id="3.2/lemma",
        theorem=THEOREM,
        label="paper",
        method="ball",
        status="UNDECIDED" if found.holds is None else "PROVED" if found.holds else "REFUTED",
        expected="PROVED" if parameters.within_theorem else None,
        statement=f"{statement}, L0 = {length}: <h_i, h_j> <= 1 - 1/(72 L0^2) for all -1 <= i < j <= n+1 and all n <= "
        f"L0{_beyond(parameters)}.",
        figures=figures,
        certificate=certificate,
        printed=PRINTED_LEMMA,
        ours="-" if found.holds is None else f"{'' if found.holds else 'not '}at L0 = {short_length(length)}",
    )


def _of_weights(
    parameters: TwoLayerParameters,
    copier: TwoLayerCopier,
    stem: str,
    suffix: str,
    kind: str,
    evidence: dict[str, Any],
    claim: dict[str, Any],
) -> str:
    """A certificate about a copier's stored weights, which are saved beside it."""
    inputs = _saved(parameters, copier, stem)
    return _certificate(parameters.out / f"{stem}-{suffix}.json", kind, inputs, evidence, claim)


def _beyond(parameters: TwoLayerParameters) -> str:
    return "" if parameters.within_theorem else BEYOND


def length_evidence(proof: LengthProof) -> dict[str, Any]:
    """The evidence of a `two-layer-length` certificate."""
    evidence = {"step_at_least": str(proof.least_step)}
    return evidence if proof.least_fall is None else evidence | {"fall_at_least": str(proof.least_fall)}


def _length_certificate(parameters: TwoLayerParameters, copier: TwoLayerCopier, stem: str, proof: LengthProof) -> str:
    evidence, claim = length_evidence(proof), {"length": proof.length}
    return _of_weights(parameters, copier, stem, "length", "two-layer-length", evidence, claim)


def _all_strings(parameters: TwoLayerParameters) -> Claim:
    statement = "The stored weights with the paper's constants copy every binary string of every length"
    copier = _buildable(parameters, "paper")
    if copier is None:
        return _not_applicable(parameters, "all-strings", "reconstructed", f"{statement} up to L0.")
    scores = copier.scores()
    proof = prove_length(scores, copier.length)
    reach = two_layer_length(scores, copier.length)
    status: Status = "PROVED" if proof is not None else "UNDECIDED"
    figures: dict[str, Any] = {"rho": str(parameters.rho), "paper_length": copier.length, **_bracket(reach)}
    if proof is not None:
        figures |= {
            "weight_of_all_others_at_most": describe(proof.others),
            "leak_and_rounding": describe(proof.mismatch),
        }
    elif reach.fails is not None and reach.fails.length <= copier.length:
        status = "REFUTED"
        figures |= _witness(copier, reach.fails)
    stem = parameters.stem("paper", 1)
    return Claim(
        id="3.2/all-strings",
        theorem=THEOREM,
        label="reconstructed",
        method="ball",
        status=status,
        expected="PROVED" if parameters.within_theorem else None,
        statement=f"{statement} up to L0 = floor(rho^2/(1000 ln rho)) = {copier.length} (a = {parameters.a}, b = "
        f"{parameters.b}{_beyond(parameters)}).",
        figures=figures,
        certificate=None if proof is None else _length_certificate(parameters, copier, stem, proof),
        printed=PRINTED_LENGTH,
        ours=short_length(copier.length) if proof is not None else _fails(reach) if status == "REFUTED" else "-",
    )


def _fails(bound: LengthBound) -> str:
    return "-" if bound.fails is None else f"fails at {short_length(bound.fails.length, up=True)}"


def _bracket(bound: LengthBound) -> dict[str, Any]:
    return {
        "copies_up_to": bound.lower,
        "fails_at": None if bound.fails is None else bound.fails.length,
        "exact": bound.length is not None,
    }


def _witness(copier: TwoLayerCopier, flip: SingleFlip) -> dict[str, Any]:
    if flip.length <= LONGEST_TWO_LAYER_REPLAY:
        replayed = replay_document(replay_two_layer(copier, flip_string(flip), flip.step))
    else:
        replayed = {"ran": False, "torch_model_wrong": None, "reason": "so long a string is decided in balls only"}
    return {"witness": witness_document(flip), "replay": replayed}


def _sharp_length(parameters: TwoLayerParameters, variant: str, pairs: int) -> Claim:
    name, statement = (
        f"length/{variant}-{pairs}",
        f"The stored weights of the {variant} copier with {pairs} turning pairs",
    )
    copier = _buildable(parameters, variant, pairs)
    if copier is None:
        return _not_applicable(parameters, name, "new", f"{statement} copy strings.")
    scores = copier.scores()
    bound = two_layer_length(scores, copier.length)
    stem = parameters.stem(variant, pairs)
    certificates: list[str] = []
    proof = prove_length(scores, bound.lower) if bound.lower else None
    if proof is not None:
        certificates.append(_length_certificate(parameters, copier, stem, proof))
    figures = {"rho": str(parameters.rho), **_bracket(bound), **_constants(parameters, variant, bound)}
    if bound.fails is not None:
        figures |= _witness(copier, bound.fails)
        flip = {"length": bound.fails.length, "background": 0, "step": bound.fails.step}
        certificates.append(
            _of_weights(parameters, copier, stem, "counterexample", "two-layer-counterexample", {}, flip)
        )
    close = bound.fails is not None and 100 * bound.fails.length <= 101 * bound.lower + 100
    return Claim(
        id=f"3.2/{name}",
        theorem=THEOREM,
        label="new",
        method="ball",
        status="PROVED" if close else "UNDECIDED",
        expected="PROVED" if parameters.within_theorem else None,
        statement=f"{statement} ({FORMS[variant]}) copy every binary string of every length <= {bound.lower}, and not "
        f"every string of length {bound.fails.length if bound.fails else '?'}{_beyond(parameters)}.",
        figures=figures | {"certificates": certificates},
        certificate=certificates[0] if certificates else None,
        printed=PRINTED_LENGTH,
        ours=short_length(bound.lower) if proof is not None else _fails(bound),
    )


def _constants(parameters: TwoLayerParameters, variant: str, bound: LengthBound) -> dict[str, Any]:
    """The constant of L = const rho^2, and its ratio to the ceilings for the variant's best score scale."""
    rho = parameters.rho
    ceiling = plane_curve_ceiling(BEST_SCALE[variant] * rho**4)
    quadrant = (float(BEST_SCALE[variant]) / (2 * 0.785398)) ** 0.5 * 1.570796
    return {
        "length_over_rho_square": float(bound.lower / rho**2),
        "ratio_to_equal_steps_in_a_quadrant": float(bound.lower / rho**2) / quadrant,
        "proved_ceiling": ceiling,
        "ratio_to_proved_ceiling": bound.lower / ceiling,
    }


def _trained_layout(parameters: TwoLayerParameters) -> Claim:
    statement = (
        "A repaired construction (anchors that occur twice, <O:> as a marker) copies the trained layout <n> <I:> s <n> "
    )
    copier = _buildable(parameters, "repeated")
    if copier is None:
        return _not_applicable(parameters, "trained-layout", "new", f"{statement}<I:> <O:> s.")
    proof = prove_length(copier.scores(), copier.length)
    stem = parameters.stem("repeated", 1)
    return Claim(
        id="3.2/trained-layout",
        theorem=THEOREM,
        label="new",
        method="ball",
        status="UNDECIDED" if proof is None else "PROVED",
        expected="PROVED" if parameters.within_theorem else None,
        statement=f"{statement}<I:> <O:> s: its stored weights, of norm <= {parameters.rho}, copy every binary string "
        f"of every length <= {copier.length}{_beyond(parameters)}.",
        figures={
            "rho": str(parameters.rho),
            "length": copier.length,
            "length_over_rho_square": float(copier.length / parameters.rho**2),
            "paper_length": paper_two_layer_length(parameters.rho),
        },
        certificate=None if proof is None else _length_certificate(parameters, copier, stem, proof),
        printed=PRINTED_LENGTH,
        ours="-" if proof is None else short_length(copier.length),
    )


def _plane_ceiling(parameters: TwoLayerParameters) -> Claim:
    fails_at = plane_curve_ceiling(norm_scale(parameters.rho))
    inputs, claim = {"rho": str(parameters.rho)}, {"fails_at": fails_at}
    path = parameters.out / f"two-layer-rho-{str(parameters.rho).replace('/', '_')}-plane-ceiling.json"
    return Claim(
        id="3.2/plane-ceiling",
        theorem=THEOREM,
        label="new",
        method="ball",
        status="PROVED",
        expected="PROVED",
        statement="No two-layer, one-head copier whose first layer puts the data tokens on a curve in a quadrant of a "
        "plane, by position alone, and whose second layer compares linearly and takes the weighted majority, of "
        f"parameter norm <= {parameters.rho}, copies every string of length {fails_at} (about 0.472 rho^2).",
        figures={
            "rho": str(parameters.rho),
            "fails_at": fails_at,
            "fails_at_for_scale_rho^4/64": plane_curve_ceiling(parameters.rho**4 / 64),
            "fails_at_for_scale_rho^4/32": plane_curve_ceiling(parameters.rho**4 / 32),
        },
        certificate=_certificate(path, "plane-curve-ceiling", inputs, {}, claim),
        ours=f"fails at {short_length(fails_at, up=True)}",
    )


def _share_ceiling(parameters: TwoLayerParameters) -> Claim:
    share = log_attention_share(parameters.rho)
    inputs, claim = {"rho": str(parameters.rho), "heads": 1}, {"log_share": str(share)}
    path = parameters.out / f"two-layer-rho-{str(parameters.rho).replace('/', '_')}-attention-share.json"
    return Claim(
        id="3.2/attention-share",
        theorem=THEOREM,
        label="paper",
        method="exact",
        status="PROVED",
        expected="PROVED",
        statement="The paper's O(1/L), made explicit: in every two-layer, one-head transformer of parameter norm <= "
        f"{parameters.rho} a token's attention among T tokens is at most exp({share})/T; and if its last scores do not "
        f"depend on the string, it does not copy all strings of length n once ln(2n-2) >= {share}. (Where they do "
        "depend on the string the remark does not follow: a normalised output forgets how small the shares are.)",
        figures={"rho": str(parameters.rho), "log_share": str(share)},
        certificate=_certificate(path, "attention-share-ceiling", inputs, {}, claim),
        printed="O(1/L)",
        ours=f"exp({power_of_ten(ceil(share), up=True)})/T",
    )
