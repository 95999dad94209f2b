"""Theorem 4.1's claims: the universal ones, and those about a norm budget and its draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from constructions import GridCopier, Replay, build_grid_copier, greedy_copy, replay
from proofs_check.claims._claim import Claim, Status, Task, three_digits
from proofs_check.documents import read_claim, weights_input, write_certificate
from theory import (
    InputError,
    LengthBound,
    draw_grid_frequencies,
    exact_length,
    prove_failure_probability,
    sample_strings,
)
from theory.grid import (
    LEAST_D,
    Budget,
    SingleFlip,
    UniversalProof,
    cosine_constant,
    cosine_step_excess,
    dirichlet_ceiling,
    failure_bound,
    first_step_failure,
    furthest_length,
    length_with_failure,
    norm_ceiling,
    paper_length,
    score_scale,
)
from theory.numbers import TYPICAL_LENGTH, Label, describe, require_at_least, upper_fraction, working_precision
from theory.task import single_flip_strings, spell

THEOREM = "4.1"
BUDGETS: tuple[Budget, ...] = ("paper", "three-tokens")

#: Embedded tokens, exponent c of the length rho^(c d), and label of the universal claims: the printed one and ours.
UNIVERSAL: tuple[tuple[Budget, Fraction, Label], ...] = (
    ("paper", Fraction(1, 12), "paper"),
    ("paper", Fraction(1, 3), "new"),
    ("three-tokens", Fraction(7, 20), "new"),
)

#: The construction without V = 3 is our reading of the paper's; with it, it is new.
#: Said in every statement about a budget outside the theorem's range.
BEYOND = "; beyond the hypotheses of Theorem 4.1"

NAMES: dict[Budget, str] = {"paper": "all-tokens", "three-tokens": "three-tokens"}
LABELS: dict[Budget, Label] = {"paper": "reconstructed", "three-tokens": "new"}
EMBEDDED: dict[Budget, str] = {"paper": "all a+b+2 tokens", "three-tokens": "three tokens"}

#: The length that the paper prints.
PRINTED_LENGTH = "rho^(d/12)"

#: Most bits of a drawn frequency.
LARGEST_BITS = 8192

#: Lengths up to this are decided by a scan, longer ones by lattice reduction.
SCAN_LIMIT = 1_000_000

#: A scan goes on to this length where the theorem's is shorter; the certificate claims what it found.
CERTIFIED_SCAN = 100_000

#: Length of the strings that the torch model is tried on in a report.
TRIED_LENGTH = 256


@dataclass(frozen=True)
class BudgetParameters:
    """One norm budget and what is drawn for it.

    Attributes:
        rho: the norm budget.
        a, b, d: layout and RoPE dimension.
        draws, seed, bits: how many draws, of which seed, with how many bits.
        out: directory of the certificates and weights.
        tick: called after each draw.
    """

    rho: Fraction
    a: int
    b: int
    d: int
    draws: int
    seed: int
    bits: int
    out: Path
    tick: Callable[[], None]

    @property
    def within_theorem(self) -> bool:
        """Do the hypotheses of Theorem 4.1 hold?"""
        return self.rho > self.d**2 and self.d >= theorem_d(self.a, self.b)

    @property
    def slug(self) -> str:
        """Beginning of the file names."""
        return (
            f"rho-{str(self.rho).replace('/', '_')}-a-{self.a}-b-{self.b}-d-{self.d}-seed-{self.seed}-bits-{self.bits}"
        )


def theorem_d(a: int, b: int) -> int:
    """Least d that Theorem 4.1 allows: 100 + 4a + 4b, which is divisible by 4."""
    return 100 + 4 * a + 4 * b


def universal_claims(out: Path) -> list[Task]:
    """The claims that depend on no argument."""
    step = "in its proof: cos theta >= 1 - delta implies theta <= sqrt(2 delta)"
    return [
        Task(
            "4.1/cosine-lemma",
            THEOREM,
            "the lemma P(cos theta >= 1 - delta) <= sqrt(delta)",
            partial(_cosine_lemma, out),
        ),
        Task("4.1/cosine-step", THEOREM, step, partial(_cosine_step, out)),
        *(_probability_task(out, *claim) for claim in UNIVERSAL),
    ]


def _probability_task(out: Path, budget: Budget, exponent: Fraction, label: Label) -> Task:
    about = f"all d, rho: length rho^({_times_d(exponent)}) with probability 1 - d/rho, {EMBEDDED[budget]}"
    run = partial(_probability, out, budget, exponent, label)
    return Task(_probability_id(budget, exponent), THEOREM, about, run)


def _probability_id(budget: Budget, exponent: Fraction) -> str:
    return f"4.1/probability/{NAMES[budget]}/rho^({_times_d(exponent)})"


def budget_claims(parameters: BudgetParameters) -> list[Task]:
    """The claims about one norm budget."""

    def task(name: str, about: str, decide: Callable[..., Claim], *budget: Budget, ticks: int = 0) -> Task:
        run = partial(decide, parameters, *budget)
        return Task(f"4.1/{name}", THEOREM, about, run, parameters.rho, ticks)

    tasks = []
    for budget in BUDGETS:
        name, embedded = NAMES[budget], EMBEDDED[budget]
        tasks.append(task(f"norm/{name}", f"the stored weights have norm <= rho, {embedded}", _norm, budget))
        about = f"each draw copies every string up to rho^(d/12), {embedded}"
        tasks.append(task(f"draws/{name}", about, _draws, budget, ticks=parameters.draws))
    return [
        *tasks,
        task("torch-run", "strings tried in the torch model of draw 0", _torch_run),
        task("length-at-probability", "the length that a draw copies with probability 1 - d/rho", _sharp_length),
        task("ceiling", "how far no position-only copier of this norm gets", _ceiling),
        task("b-1", "Theorem 4.1 with b = 1, under the fixed-offset construction", _single_b),
    ]


def power_of_ten(length: int, *, up: bool = False) -> str:
    """A length as text: itself if short, else 10^x, x with one decimal, rounded down, or up for a length that fails."""
    if length < 10**7:
        return str(length)
    tenths = (length**10).bit_length() * 30103 // 100000 - 1
    while 10 ** (tenths + 1) <= length**10:
        tenths += 1
    while 10**tenths > length**10:
        tenths -= 1
    tenths += up and 10**tenths < length**10
    return f"10^{tenths // 10}.{tenths % 10}"


def short_length(length: int, *, up: bool = False) -> str:
    """A length as text: itself up to ten digits, else as in `power_of_ten`."""
    return str(length) if length < 10**10 else power_of_ten(length, up=up)


def _cosine_lemma(out: Path) -> Claim:
    delta = Fraction(1, 10)
    constant = cosine_constant(delta)
    certificate = "cosine-lemma.json"
    write_certificate(out / certificate, "cosine-lemma", {"delta_below": str(delta)}, {}, {"constant": 1})
    return Claim(
        id="4.1/cosine-lemma",
        theorem=THEOREM,
        label="paper",
        method="ball",
        status="PROVED" if constant < 1 else "UNDECIDED",
        expected="PROVED",
        statement="For theta uniform on [0, 2 pi] and 0 < delta < 0.1, P(cos theta >= 1 - delta) <= sqrt(delta).",
        figures={
            "least_constant": describe(constant),
            "proof": "arccos(1 - delta)/sqrt(delta) increases; its value at delta = 0.1 is a ball",
        },
        certificate=certificate,
        printed="sqrt(delta)",
        ours=f"{three_digits(upper_fraction(constant), up=True)} sqrt(delta)",
    )


def _cosine_step(out: Path) -> Claim:
    delta = Fraction(1, 20)
    excess = cosine_step_excess(delta)
    certificate = "cosine-step-counterexample.json"
    write_certificate(out / certificate, "cosine-step-counterexample", {}, {}, {"delta": str(delta)})
    return Claim(
        id="4.1/cosine-step",
        theorem=THEOREM,
        label="paper",
        method="ball",
        status="REFUTED" if excess > 0 else "UNDECIDED",
        expected="REFUTED",
        statement="A step of the printed proof: for delta < 0.1 and theta in [0, pi], cos theta >= 1 - delta implies "
        "theta <= sqrt(2 delta). (The lemma itself survives.)",
        figures={"witness": {"delta": str(delta), "arccos(1 - delta) - sqrt(2 delta)": describe(excess)}},
        certificate=certificate,
        printed="sqrt(2 delta)",
        ours=f"false at {delta}" if excess > 0 else "-",
    )


def _probability(out: Path, budget: Budget, exponent: Fraction, label: Label) -> Claim:
    proof = prove_failure_probability(exponent, budget)
    slug = f"{NAMES[budget]}-{str(exponent).replace('/', '-')}"
    certificate, figures = None, {}
    if proof is not None:
        certificate = f"failure-probability-{slug}.json"
        inputs = {"exponent": str(exponent), "budget": budget, "d_least": LEAST_D}
        claim = {"failure_numerator": "d", "failure_denominator": "rho"}
        write_certificate(out / certificate, "failure-probability", inputs, {}, claim)
        figures = _proof_figures(proof)
    return Claim(
        id=_probability_id(budget, exponent),
        theorem=THEOREM,
        label=label,
        method="ball",
        status="PROVED" if proof is not None else "UNDECIDED",
        expected="PROVED",
        statement="For all d >= 100 + 4a + 4b divisible by 4, a >= 1, b >= 2, rho > d^2: with probability at least "
        f"1 - d/rho over the frequencies, the ideal copier (real arithmetic, {EMBEDDED[budget]} embedded) of parameter "
        f"norm <= rho copies every string of length <= rho^({_times_d(exponent)}).",
        figures=figures,
        certificate=certificate,
        printed=PRINTED_LENGTH,
        ours=f"rho^({_times_d(exponent)})" if proof is not None else "-",
    )


def _times_d(exponent: Fraction) -> str:
    """The exponent times d, as text: d/12 or 7d/20."""
    return f"{exponent.numerator if exponent.numerator != 1 else ''}d/{exponent.denominator}"


def _proof_figures(proof: UniversalProof) -> dict[str, Any]:
    return {
        "proof": "union bound; the logarithm of (failure bound * rho/d) decreases in rho, so rho = d^2 is the worst; "
        "each d below corner_d is checked by itself, the three signs at corner_d decide for all from there on",
        "corner_d": proof.corner_d,
        "slope_in_rho": describe(proof.corner.slope_in_rho),
        "slope_in_d": describe(proof.corner.slope_in_d),
        "value_at_corner": describe(proof.corner.value),
        "largest_value_below_corner": None if proof.largest_single is None else describe(proof.largest_single),
    }


def _copier(parameters: BudgetParameters, draw: int, budget: Budget) -> GridCopier:
    frequencies = draw_grid_frequencies(parameters.d, parameters.seed, draw, parameters.bits)
    return build_grid_copier(parameters.rho, parameters.d, parameters.a, parameters.b, frequencies, budget)


def _weights_name(parameters: BudgetParameters, draw: int, budget: Budget) -> str:
    return f"{parameters.slug}-draw-{draw:04d}-{budget}.safetensors"


def _norm(parameters: BudgetParameters, budget: Budget) -> Claim:
    certificates, largest = [], Fraction(0)
    for draw in range(parameters.draws):
        copier = _copier(parameters, draw, budget)
        weights = _weights_name(parameters, draw, budget)
        digest = copier.save(parameters.out / weights)
        name = f"{weights.removesuffix('.safetensors')}-norm.json"
        write_certificate(
            parameters.out / name,
            "weights-norm",
            weights_input(weights, digest),
            {},
            {"norm_at_most": str(parameters.rho)},
        )
        largest = max(largest, copier.square_norm())
        certificates.append(name)
    return Claim(
        id=f"4.1/norm/{NAMES[budget]}",
        theorem=THEOREM,
        label=LABELS[budget],
        method="exact",
        status="PROVED" if largest <= parameters.rho**2 else "REFUTED",
        expected="PROVED",
        statement=f"The stored parameters of the copier ({EMBEDDED[budget]} embedded) have norm at most "
        f"{parameters.rho} in each of {parameters.draws} draws.",
        figures={
            "rho": str(parameters.rho),
            "largest_square_norm_over_rho_square": float(largest / parameters.rho**2),
            "certificates": certificates,
        },
        printed="norm <= rho" if budget == "paper" else "-",
        ours=f"so in {_draws_of(parameters.draws)}" if largest <= parameters.rho**2 else "not so",
    )


def _draws_of(count: int) -> str:
    return f"{count} draw{'s' * (count != 1)}"


def _draws(parameters: BudgetParameters, budget: Budget) -> Claim:
    target = paper_length(parameters.rho, parameters.d)
    results = []
    for draw in range(parameters.draws):
        results.append(_draw(parameters, draw, budget, target))
        parameters.tick()
    statuses = {result["status"] for result in results}
    status: Status = "REFUTED" if "REFUTED" in statuses else "UNDECIDED" if "UNDECIDED" in statuses else "PROVED"
    lengths = [int(result["length"]) for result in results]
    return Claim(
        id=f"4.1/draws/{NAMES[budget]}",
        theorem=THEOREM,
        label=LABELS[budget],
        method="ball" if target > SCAN_LIMIT else "float+bound",
        status=status,
        expected="PROVED" if parameters.within_theorem else None,
        statement=f"In each of {parameters.draws} draws of seed {parameters.seed} ({EMBEDDED[budget]} embedded"
        f"{'' if parameters.within_theorem else BEYOND}), the stored weights copy "
        f"every string of length <= rho^(d/12) = {power_of_ten(target)}. (A draw that did not would not "
        "refute the theorem.)",
        figures={
            "rho": str(parameters.rho),
            "paper_length": target,
            "least_length_certified": power_of_ten(min(lengths)),
            "largest_length_certified": power_of_ten(max(lengths)),
            "log10_of_typical_length": {
                "value": _typical(parameters, budget),
                "label": "new",
                "method": "sampled",
                "sampled_at_d": [4, 8, 12],
            },
            "beyond_theorem": not parameters.within_theorem,
            "draws": results,
        },
        printed=PRINTED_LENGTH,
        ours=_draws_outcome(results, status),
    )


def _draws_outcome(results: list[dict[str, Any]], status: Status) -> str:
    """What the draws amount to: the length that all copy, or how many do not copy the paper's."""
    if status == "PROVED":
        return f"{power_of_ten(min(int(result['length']) for result in results))}, {_draws_of(len(results))}"
    failing = sum(result["status"] == "REFUTED" for result in results)
    return f"{failing} of {_draws_of(len(results))} fail" if failing else "-"


def _typical(parameters: BudgetParameters, budget: Budget) -> str:
    scale = score_scale(parameters.rho, parameters.d, parameters.a, parameters.b, budget)
    with working_precision(128):
        return f"{float(TYPICAL_LENGTH.ball(S=scale, d=parameters.d).log_base(10)):.1f}"


def _draw(parameters: BudgetParameters, draw: int, budget: Budget, target: int) -> dict[str, Any]:
    copier = _copier(parameters, draw, budget)
    weights = _weights_name(parameters, draw, budget)
    inputs = weights_input(weights, copier.save(parameters.out / weights))
    stem = weights.removesuffix(".safetensors")
    figures: dict[str, Any] = {"draw": draw, "weights": weights, "sha256": inputs["weights"]["sha256"]}
    if target > SCAN_LIMIT:
        length = _separation(parameters.out / f"{stem}-separation.json", copier, inputs)
        if length >= target:
            return figures | {"status": "PROVED", "length": length, "certificate": f"{stem}-separation.json"}
    bound = exact_length(copier.score(), max(target, CERTIFIED_SCAN) if target <= SCAN_LIMIT else SCAN_LIMIT)
    return figures | _scan_result(parameters.out, stem, copier, inputs, bound, target)


def _separation(path: Path, copier: GridCopier, inputs: dict[str, Any]) -> int:
    """Largest length certified by lattice reduction; an accepted certificate for the same weights is used again."""
    known = read_claim(path, "grid-separation", inputs)
    if known is not None:
        return int(known["length"])
    length, lattice = furthest_length(copier.score())
    if lattice is None:
        return 0
    evidence = {"bits": lattice.bits, "weight": lattice.weight, "basis": [list(row) for row in lattice.basis]}
    write_certificate(path, "grid-separation", inputs, evidence, {"length": length})
    return length


def _scan_result(
    out: Path, stem: str, copier: GridCopier, inputs: dict[str, Any], bound: LengthBound, target: int
) -> dict[str, Any]:
    figures: dict[str, Any] = {"exact_length": bound.length, "length": bound.lower}
    if bound.fails is not None and bound.fails.length <= target:
        claim = {
            "length": bound.fails.length,
            "background": 0,
            "flips": [bound.fails.flip_position],
            "step": bound.fails.step,
        }
        write_certificate(out / f"{stem}-counterexample.json", "grid-counterexample", inputs, {}, claim)
        figures |= {
            "certificate": f"{stem}-counterexample.json",
            "witness": witness_document(bound.fails),
            "replay": replay_document(replay_flip(copier, bound.fails)),
        }
        return figures | {"status": "REFUTED"}
    if bound.lower < target:
        return figures | {"status": "UNDECIDED", "certificate": None}
    claim = {"copies_up_to": bound.lower, "fails_at": None if bound.fails is None else bound.fails.length}
    write_certificate(out / f"{stem}-scan.json", "grid-scan", inputs, {}, claim)
    return figures | {"status": "PROVED", "certificate": f"{stem}-scan.json"}


def counterexample_claim(flip: SingleFlip) -> dict[str, Any]:
    """The claim of a counterexample certificate."""
    return {"length": flip.length, "background": flip.background, "flips": [flip.flip_position], "step": flip.step}


def flip_string(flip: SingleFlip) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The symbols of a single-flip string."""
    string = np.full(flip.length, flip.background, dtype=np.int64)
    string[flip.flip_position - 1] ^= 1
    return string


def replay_flip(copier: GridCopier, flip: SingleFlip) -> Replay:
    """Run a single-flip witness through the torch model."""
    return replay(copier, flip_string(flip), flip.step)


def replay_document(outcome: Replay) -> dict[str, Any]:
    """A replay as JSON."""
    return {"ran": outcome.ran, "torch_model_wrong": outcome.wrong, "reason": outcome.reason}


def witness_document(flip: SingleFlip, longest: int = 10**5) -> dict[str, Any]:
    """A single-flip witness as JSON; the string itself up to `longest` symbols."""
    string = spell(flip_string(flip)) if flip.length <= longest else None
    return {
        "length": flip.length,
        "step": flip.step,
        "background": flip.background,
        "flip_position": flip.flip_position,
        "string": string,
    }


def _torch_run(parameters: BudgetParameters) -> Claim:
    copier = _copier(parameters, 0, "three-tokens")
    length = min(TRIED_LENGTH, paper_length(parameters.rho, parameters.d))
    kinds = ("uniform", "imbalanced", "recursive-flip", "repeat-structure")
    strings = np.concatenate(
        [
            *(sample_strings(kind, length, 4, parameters.seed) for kind in kinds),
            single_flip_strings(length)[:: max(1, length // 8)],
        ]
    )
    wrong = (greedy_copy(copier, strings) != strings).any(axis=1)
    return Claim(
        id="4.1/torch-run",
        theorem=THEOREM,
        label="reconstructed",
        method="sampled",
        status="REFUTED" if wrong.any() else "UNDECIDED",
        expected="UNDECIDED" if parameters.within_theorem else None,
        statement=f"The float64 torch model of draw 0 itself copies every string of length <= {length}. "
        f"{'' if wrong.any() else 'Only tried, so never called proved.'}",
        figures={
            "rho": str(parameters.rho),
            "length": length,
            "strings_tried": len(strings),
            "strings_wrong": int(wrong.sum()),
            "witness": spell(strings[wrong][0]) if wrong.any() else None,
        },
        ours=f"{len(strings) - int(wrong.sum())} of {len(strings)} right",
    )


def _sharp_length(parameters: BudgetParameters) -> Claim:
    rho, d, a, b = parameters.rho, parameters.d, parameters.a, parameters.b
    budget: Budget = "three-tokens"
    probability = Fraction(d) / rho
    if probability >= 1:
        return _sharp_claim(
            parameters, "L", "NOT_APPLICABLE", {"reason": f"1 - d/rho is not positive at rho = {rho}"}, None
        )
    length = length_with_failure(probability, rho, d, a, b, budget)
    if length == 0:
        return _sharp_claim(
            parameters, "L", "UNDECIDED", {"reason": "the union bound exceeds d/rho at every length"}, None
        )
    certificate = f"{parameters.slug}-failure-probability.json"
    inputs = {"rho": str(rho), "d": d, "a": a, "b": b, "budget": budget}
    claim = {"length": length, "failure_at_most": str(probability)}
    write_certificate(parameters.out / certificate, "failure-probability-at", inputs, {}, claim)
    figures = {
        "rho": str(rho),
        "length": length,
        "failure_at_most": str(probability),
        "failure_bound_at_paper_length": describe(failure_bound(paper_length(rho, d), rho, d, a, b, budget)),
    }
    return _sharp_claim(parameters, power_of_ten(length), "PROVED", figures, certificate)


def _sharp_claim(
    parameters: BudgetParameters, length: str, status: Status, figures: dict[str, Any], certificate: str | None
) -> Claim:
    return Claim(
        id="4.1/length-at-probability",
        theorem=THEOREM,
        label="new",
        method="ball",
        status=status,
        expected="PROVED" if parameters.within_theorem else None,
        statement=f"At rho = {parameters.rho}, d = {parameters.d} (three tokens embedded), a draw copies every string "
        f"of length <= {length} with probability at least 1 - d/rho.",
        figures=figures,
        certificate=certificate,
        printed=PRINTED_LENGTH,
        ours=length if status == "PROVED" else "-",
    )


def _ceiling(parameters: BudgetParameters) -> Claim:
    rho, d = parameters.rho, parameters.d
    for_norm = norm_ceiling(d, rho)
    equal = dirichlet_ceiling(d, d // 4 * score_scale(rho, d, parameters.a, parameters.b, "three-tokens"))
    certificate = f"{parameters.slug}-dirichlet-ceiling.json"
    inputs, evidence = {"d": d, "rho": str(rho)}, {"q": for_norm.q}
    write_certificate(
        parameters.out / certificate, "dirichlet-ceiling", inputs, evidence, {"fails_at": for_norm.fails_at}
    )
    return Claim(
        id="4.1/ceiling",
        theorem=THEOREM,
        label="new",
        method="ball",
        status="PROVED",
        expected="PROVED",
        statement=f"Whatever the frequencies and amplitudes, no position-only 2D-RoPE copier with d = {d} and "
        f"parameter norm <= {rho} copies every string of length {power_of_ten(for_norm.fails_at, up=True)}.",
        figures={
            "rho": str(rho),
            "fails_at": for_norm.fails_at,
            "fails_at_with_equal_amplitudes": equal.fails_at,
            "q": for_norm.q,
        },
        certificate=certificate,
        ours=f"fails at {power_of_ten(for_norm.fails_at, up=True)}",
    )


def _single_b(parameters: BudgetParameters) -> Claim:
    frequencies = draw_grid_frequencies(parameters.d, parameters.seed, 0, parameters.bits)
    copier = build_grid_copier(parameters.rho, parameters.d, parameters.a, 1, frequencies, allow_single_b=True)
    flip = first_step_failure(copier.score())
    figures: dict[str, Any] = {
        "rho": str(parameters.rho),
        "reason": "at step 1 the newline itself asks, n columns away from s_1 in the same row",
    }
    if flip is None or flip.length > paper_length(parameters.rho, parameters.d):
        # Beyond the theorem the lengths it speaks of may be too short for a failure.
        return _single_b_claim("UNDECIDED" if parameters.within_theorem else "NOT_APPLICABLE", figures, None)
    weights = f"{parameters.slug}-b-1.safetensors"
    inputs = weights_input(weights, copier.save(parameters.out / weights))
    certificate = f"{parameters.slug}-b-1-counterexample.json"
    write_certificate(parameters.out / certificate, "grid-counterexample", inputs, {}, counterexample_claim(flip))
    figures |= {"witness": witness_document(flip), "replay": replay_document(replay_flip(copier, flip))}
    return _single_b_claim("REFUTED", figures, certificate)


def _single_b_claim(status: Status, figures: dict[str, Any], certificate: str | None) -> Claim:
    return Claim(
        id="4.1/b-1",
        theorem=THEOREM,
        label="reconstructed",
        method="ball",
        status=status,
        expected="REFUTED",
        statement="Under the fixed-offset construction, Theorem 4.1 holds for b = 1, which it allows as printed: "
        "draw 0 with b = 1 copies every string of length <= rho^(d/12).",
        figures=figures,
        certificate=certificate,
        printed="allows b = 1",
        ours=f"wrong at {figures['witness']['string']}" if status == "REFUTED" else "-",
    )


def require_theorem_range(rho: Fraction, a: int, b: int, d: int, beyond_theorem: bool) -> None:
    """InputError unless Theorem 4.1's hypotheses hold or are waived."""
    if rho < 1:
        raise InputError("rho", str(rho), "at least 1, or rho^(d/12) allows no string at all")
    if beyond_theorem:
        return
    if d < theorem_d(a, b):
        raise InputError(
            "d",
            d,
            f"at least 100 + 4a + 4b = {theorem_d(a, b)} (Theorem 4.1); --beyond-theorem runs it anyway",
        )
    if rho <= d**2:
        raise InputError("rho", str(rho), f"greater than d^2 = {d**2} (Theorem 4.1); --beyond-theorem runs it anyway")


def require_enough_bits(bits: int, rho: Fraction, d: int) -> None:
    """InputError unless drawn frequencies of this many bits are far from periodic over the lengths of the theorem."""
    require_at_least("bits", bits, 1)
    least = 2 * paper_length(rho, d).bit_length() + 32
    if least > LARGEST_BITS:
        raise InputError(
            "rho", str(rho), f"smaller at d = {d}: its lengths rho^(d/12) would need {least} bits a frequency"
        )
    if not least <= bits <= LARGEST_BITS:
        raise InputError(
            "bits",
            bits,
            f"from {least} to {LARGEST_BITS}: fractions of fewer bits come full circle too early for lengths "
            "up to rho^(d/12)",
        )
