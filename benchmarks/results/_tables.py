"""Every table and figure that a page quotes from stored results, written anew from the rows.

`FIGURES` has, for each, the page, the results file and the function from rows to the texts that stand in the page (up
to line breaks). `python -m benchmarks.results._tables` prints them all, to be pasted after a new run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log10, sqrt
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import certify_campaign, certify_forged, certify_hostile, minimiser_comparison, minimisers
from benchmarks._campaign import Record, read
from benchmarks.training import HALF_HOUR
from copycert.sampled import summary

RESULTS = Path(__file__).parent
Rows = list[Record]


@dataclass(frozen=True)
class Figure:
    """Texts of `page` that `texts` writes from the rows of results/`results`.jsonl."""

    page: str
    results: str
    texts: Callable[[Rows], list[str]]

    def written(self) -> list[str]:
        """From the stored rows."""
        return self.texts(read(RESULTS / f"{self.results}.jsonl")[1])


def table(lines: Iterable[Iterable[str]]) -> str:
    """Lines of a table in Markdown, without its head."""
    return "\n".join("|" + "".join(f" {cell} |" if cell else " |" for cell in line) for line in lines)


def short(value: float) -> str:
    """Three digits; from 10^4 on as a power of ten."""
    return f"{value:.3g}" if value < 1e4 else f"{value:.1e}".replace("e+0", " 10^").replace("e+", " 10^")


def results_of(rows: Rows) -> dict[str, Any]:
    """Results by part."""
    return {row["part"]: row["result"] for row in rows}


# docs/certify.md


def trained_seeds(rows: Rows) -> list[str]:
    """A line a seed but for its last column, which is another run."""
    found = results_of(rows)
    lines = []
    for seed in range(sum(part.startswith("seed ") for part in found)):
        one = found[f"seed {seed}"]
        proved = "PROVED" if one["fails_at"] is None and one["proved_to"] == 10**6 else "REFUTED"
        seconds = f"{one['cpu_seconds']}, {one['cpu_seconds_find_limit']}"
        margins = [f"{one[name]:.4g}" for name in ("margin", "margin_to_cap")]
        lines.append(table([[str(seed), one["status"], margins[0], proved, margins[1], seconds]]))
    by_length, slow = (
        ", ".join(f"{length}: {seconds} s" for length, seconds in found[part].items())
        for part in ("cpu_seconds_by_length", "cpu_seconds_by_length_one_by_one")
    )
    checker = [found["checker_10000"], found["checker_100000"]]
    said = [f"{'accepted' if one['accepted'] else 'rejected'} at" for one in checker]
    interval = [one for part, one in found.items() if part.startswith("intervals")]
    least, seeds = min(one["proves_length"] for one in interval), {8: "eight"}[len(interval)]
    return [
        *lines,
        f"against N (seed 0): {by_length}.",
        f"Lengths one by one, O(N^2), signs only: {slow}.",
        f"The independent checker: {said[0]} 10000 in {checker[0]['cpu_seconds']} s; {said[1]} 100000 in "
        f"{checker[1]['cpu_seconds']} s of processor time.",
        f"It takes about {checker[1]['cpu_seconds'] / 100:.1f} ms of processor time a length "
        f"({round(checker[1]['cpu_seconds'], -1):.0f} s for 100,000)",
        f"prove every single length tried, up to {least}, where the search ended, for all {seeds} seeds",
    ]


def campaign(rows: Rows) -> list[str]:
    """The paragraph of the campaign."""
    found = certify_campaign.totals(rows)
    counts, long = found["all"], found["long"]["models"]
    return [
        f"(small models; lengths up to 4 or 5, and up to 12 for {long} of them): {counts['models']} models, of which "
        f"{counts['proved_4']} PROVED for every length up to 4 at least, {counts['refuted']} REFUTED, "
        f"{counts['undecided']} UNDECIDED, {counts['near']} with a margin below 1e-6 at some length "
        f"({counts['near_proved']} of them PROVED). False PROVED: {counts['false_proved']}. False REFUTED: "
        f"{counts['false_refuted']}. Other first failing length: {counts['other_length']}. Margins off by more than "
        f"1e-12: {counts['margin_off']}. Lower bounds of the margin above it: {counts['bound_off']}. Decided with "
        f"balls: {counts['by_balls']}. Not compared, as the brute force's own sign is within 1e-16: {counts['untold']}."
    ]


def hostile(rows: Rows) -> list[str]:
    """The sentence of the hostile campaign."""
    longest = max(row["longest"] for row in rows)
    return [certify_hostile.summary(certify_hostile.totals(rows)), f"exact ties; strings up to length {longest}."]


def forged(rows: Rows) -> list[str]:
    """The paragraph of the forged certificates, and their table."""
    found = certify_forged.totals(rows)
    return [certify_forged.summary(found), table(certify_forged.forgery_lines(found))]


def branching(rows: Rows) -> list[str]:
    """The table of half and several heads, and the sentence below it."""
    found = {row["kind"]: row for row in rows}
    names = {
        "half": "`half`, 5 outputs and more",
        "half near": "`half`, least probability 1/2 up to 1e-2, 1e-4, 1e-6 of all logits",
        "heads": "two heads, arg-max",
        "opposed": "two heads, one against the other",
    }
    lines = []
    for kind, name in names.items():
        one = found[kind]
        proved = f"{one['proved']} ({one['proved_by_bound']}, {one['proved_by_branching']})"
        wrong = f"{one['false_proved']}, {one['false_refuted']}, {one['other_length']}"
        lines.append([name, str(one["models"]), proved, str(one["refuted"]), str(one["undecided"]), wrong])
    sums = {
        name: found["half"][name] + found["half near"][name]
        for name in ("proved", "proved_by_branching", "refuted", "found_by_search")
    }
    return [
        table(lines),
        f"{sums['proved_by_branching']} of the {sums['proved']} models proved under `half`, and the "
        f"{sums['found_by_search']} of the {sums['refuted']} refuted ones whose arg-max is still right",
    ]


# docs/training.md


def half_hour(rows: Rows) -> list[str]:
    """Processor time of the half hour's parts, and of `converge`."""
    seconds = sum(row["cpu_seconds"] for row in rows if row["part"] in HALF_HOUR)
    each = [row["cpu_seconds"] / 60 for row in rows if row["part"] == "converge"]
    tests = [test for row in rows if row["part"] == "grid" for test in row["tests"]]
    ((length, within),) = {(test["within"]["length"], test["within"]["samples"]) for test in tests}
    (samples,) = {one["samples"] for test in tests for one in test["beyond"]}
    seeds = max(row["seed"] for row in rows)
    return [
        f"(seeds 0 to {seeds}, every one in the file; {samples} strings of each length and distribution, {within} at "
        f"lengths up to {length};",
        f"took {seconds:.0f} s of processor time, on a machine with other work: {seconds / 120:.1f} minutes of two "
        "cores.",
        f"`converge` takes some {min(each):.0f} to {max(each):.0f} minutes of processor time a run",
    ]


def trained(rows: Rows) -> list[str]:
    """The lines of the table of trained encodings."""

    def part(name: str, *encodings: str) -> _Part:
        return _Part([row for row in rows if row["part"] == name and row["encoding"] in encodings])

    long = [row["accuracy"] * row["samples"] for row in rows if row["part"] == "long"]
    grid, auto, star = part("grid", "rope2d"), part("star", "auto2d"), part("star", "rope2d")
    others, uniform, rope = (
        part("others", "rope", "alibi", "nope", "rnope"),
        part("uniform", "rope2d"),
        part("uniform", "rope"),
    )
    lines = [
        ["`grid`", f"rope2d, {grid.shape}", "imbalanced", grid.within, f"{grid.beyond} strings each",
         f"{grid.verdicts} seeds, on each distribution"],
        ["`long`", "the same runs", "", "",
         f"100,000: one recursive-flip and one imbalanced string a seed, {sum(long):.0f} of {len(long)}", ""],
        ["`star`", f"auto2d, {auto.shape}, `*`", "imbalanced", auto.within, f"{auto.beyond} each", auto.verdicts],
        ["`star`", "rope2d, `*`", "imbalanced", star.within, star.copied, f"{star.verdicts}. Without a newline all "
         "tokens are in one row, and 2D-RoPE is RoPE"],
        ["`others`", f"rope, alibi, nope, rnope, {others.shape}", "imbalanced", others.within, others.copied,
         f"{others.verdicts} each; nothing is said of longer strings"],
        ["`uniform`", "rope2d", "uniform", uniform.within, uniform.beyond, uniform.verdicts],
        ["`uniform`", f"rope, {rope.shape}", "uniform", rope.within, rope.copied, rope.verdicts],
    ]  # fmt: skip
    for encoding in ("rope", "alibi", "rnope", "nope"):
        one = part("converge", encoding)
        (row,) = one.rows
        verdict, beyond, within = one.verdict, f"{one.copied} of 40 each", one.within
        if verdict == "fails":
            verdict = "**fails**, on each distribution"
            beyond = f"250, 500, 1000: {beyond}"
            worst = min(row["tests"], key=lambda test: test["within"]["exact"])
            within = f"{row['trained']['exact']}% ({worst['distribution']} {worst['within']['exact']}%)"
        elif row["trained"]["exact"] == 98:
            verdict += ", one string short of it"
            within = f"98% ({within.removesuffix('%')}% by distribution)"
        lines.append(
            ["`converge`", f"{encoding}, {one.shape}, seed {row['seed']} only", "imbalanced", within, beyond, verdict]
        )
    return [table(lines)]


@dataclass(frozen=True)
class _Part:
    """The runs of one line."""

    rows: Rows

    @property
    def shape(self) -> str:
        ((layers, steps),) = {(row["layers"], row["steps"]) for row in self.rows}
        return f"{layers} layer{'s' * (layers > 1)}, {steps} steps"

    @property
    def within(self) -> str:
        """Least and largest share of a distribution (and of an encoding) at the trained lengths."""
        counts = [one["within"] for one in summary(self.rows)]
        shares = [(200 * one["exact"] + one["samples"]) // (2 * one["samples"]) for one in counts]  # a half goes up
        low, high = min(shares), max(shares)
        return f"{low}%" if low == high else f"{low} to {high}%"

    @property
    def _counts(self) -> dict[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}
        for row in self.rows:
            for one in (one for test in row["tests"] for one in test["beyond"]):
                exact, samples = found.get(one["length"], (0, 0))
                found[one["length"]] = (exact + one["exact"], samples + one["samples"])
        return found

    @property
    def beyond(self) -> str:
        """Lengths, and how many strings of each are copied."""
        ((exact, samples),) = set(self._counts.values())
        lengths = ", ".join(f"{length:,}" if length >= 10_000 else str(length) for length in self._counts)
        return f"{lengths}: {exact} of {samples}"

    @property
    def copied(self) -> str:
        """Strings copied beyond the trained lengths."""
        return str(sum(exact for exact, _ in self._counts.values()))

    @property
    def verdict(self) -> str:
        (verdict,) = {test["verdict"] for row in self.rows for test in row["tests"]}
        return str(verdict)

    @property
    def verdicts(self) -> str:
        """The verdict and how many seeds have it, of each encoding."""
        (seeds,) = {one["seeds"] for one in summary(self.rows)}
        return f"{self.verdict}: {seeds} of {seeds}"


def repetition(rows: Rows) -> list[str]:
    """Repeated strings that the converged RoPE run copies."""
    (found,) = (row["repetition"] for row in rows if (row["part"], row.get("encoding")) == ("converge", "rope"))
    exact, keeps = (", ".join(f"{one[name]:g}" for one in found) for name in ("exact", "p"))
    return [f"it copies {exact} for p = {keeps}."]


def lists(rows: Rows) -> list[str]:
    """Lists copied by the two seeds."""
    first, second = (row for row in rows if row["part"] == "lists")

    def copied(low: int, lengths: tuple[int, ...]) -> list[int]:
        return [
            round(one["accuracy"] * one["samples"])
            for one in first["results"]
            if one["periods"][0] == low and one["length"] in lengths
        ]

    near, far = copied(2, (200, 300, 500)), copied(9, (200, 300, 500))
    within = [round(row["within"]["accuracy"] * row["within"]["samples"]) for row in (first, second)]
    return [
        f"seed {first['seed']} converges ({within[0]} of {first['within']['samples']} lists of 50 to 150 points)",
        f"{min(near)} of 10 lists of 200, 300 and 500 points at periods 2 to 8, and {far[0]}, {far[1]} and {far[2]} of "
        f"10 at periods 9 to 32. Seed {second['seed']} is NOT CONVERGED ({within[1]} of "
        f"{second['within']['samples']}).",
    ]


def readme_training(rows: Rows) -> list[str]:
    """The sentence of the README."""

    def furthest(part: str, encoding: str) -> int:
        """The length up to which every string tried was copied, by all seeds."""
        runs = [row for row in rows if row["part"] == part and row.get("encoding", "rope2d") == encoding]
        tests = [one for row in runs for one in row.get("tests", [{"beyond": [row]}])]
        counts = [one for test in tests for one in test["beyond"]]
        failing = [one["length"] for one in counts if one.get("exact", one.get("accuracy")) != one["samples"]]
        tried = {one["length"] for one in counts}
        return max((length for length in tried if length < min(failing, default=10**9)), default=0)

    rope = _Part([row for row in rows if (row["part"], row.get("encoding")) == ("converge", "rope")])
    first = min(rope._counts)
    beyond = "none" if not int(rope.copied) else "some"
    return [
        f"one layer of 2D-RoPE copies all strings tried up to {furthest('long', 'rope2d'):,} symbols, Auto-2D-RoPE "
        f"with `*` for the newline up to {furthest('star', 'auto2d')}; two layers of RoPE, where converged (one seed "
        f"run), copy all up to {rope.rows[0]['trained']['length']} and {beyond} of {first}",
    ]


# docs/theorem-4-2.md


def minimiser_counts(rows: Rows) -> list[str]:
    """The paragraphs around the table of the fifty draws."""
    found = minimisers.summary(rows)
    large = [row for row in rows if Fraction(row["M"]) >= minimisers.LARGE_BOUND]
    small = [row for row in rows if Fraction(row["M"]) < minimisers.LARGE_BOUND]
    free, tied = ([row for row in large if row["queries"] == queries] for queries in ("free", "tied"))
    twice = [row for row in large if row["closed_form_over_certified"] <= 2]
    lost = [row for row in large if row["closed_form_over_certified"] > 2]
    within = ceil(1e4 * max(row["closed_form_over_certified"] for row in tied)) / 1e4
    by_content = sum(row["best_method"] == "content-programme" for row in lost)
    (searched,) = (row["draw"] for row in lost if row["best_method"] != "content-programme")
    below = [row["draw"] for row in rows if row["closed_form_excess"] < row["position_only_certified_excess"]]
    examples = [str(draw) for draw in (13, 18) if draw in below]
    others = " and others" * (len(below) > 2)
    factors = {
        f"{max(row[name] for row in small):.1f}" for name in ("best_over_certified", "closed_form_over_certified")
    }
    words = {6: "six", 7: "seven", 50: "fifty"}
    beaten = "no search beats the bound" if not found["bound_beaten"] else "a search beats the bound"
    accepted, above = found["certificates_accepted"], found["draws"] - found["bound_no_better_than_floor"]
    certainly = found["draws_where_the_minimiser_certainly_uses_content"]
    return [
        f"(d = {_listed(rows, 'd')}; L = {_listed(rows, 'L')}; M from 1 to 4; every fifth tied; {found['starts']} "
        f"starts, {found['failed_starts'] or 'none'} failed;",
        f"{beaten}, which is above the floor in all {words[above]}, and all {words[accepted]} certificates are "
        f"accepted by the independent checker. For M >= 3/2 ({len(large)} draws):",
        f"*The bound loses at most a factor {found['large_M_bound_loses_at_most']:.2f} of the excess* in every draw, "
        f"certified: the best point found is that near. Under tied queries ({len(tied)} draws) the closed form itself "
        f"is within {within}.",
        f"at most twice the certified excess in {len(twice)} of {len(large)} draws "
        f"({sum(row in twice for row in free)} of the {len(free)} free ones). In the other {words[len(lost)]} the "
        "closed form loses the factor",
        f"The best point is the content programme's in {words[by_content]} draws, a search's in draw {searched}.",
        f"(Draws {', '.join(examples)}{others} have polished closed forms below "
        f"that bound: the polish moved keys apart in some pair.) Over all {words[len(rows)]} draws some point lies "
        f"below the position-only bound in {certainly}.",
        f"is never more than {found['largest_closed_form_worse_by']:.1e} (relative)".replace("e-0", "e-"),
        f"For M < 3/2 ({len(small)} draws) the factor is up to {' or '.join(sorted(factors))}, for the best point as "
        "for the closed form",
    ]


def _listed(rows: Rows, name: str) -> str:
    return ", ".join(map(str, sorted({row[name] for row in rows})))


def minimiser_table(rows: Rows) -> list[str]:
    """The draws in which the closed form loses more than a factor of two."""
    lines = []
    for row in rows:
        if Fraction(row["M"]) < minimisers.LARGE_BOUND or row["closed_form_over_certified"] <= 2:
            continue
        certified = [row["closed_form_loses_at_least"], row["bound_loses_at_most"]]
        if list(map(short, certified)) != [short(row["closed_form_over_best"]), short(row["best_over_certified"])]:
            raise ArithmeticError(f"draw {row['draw']}: the certified ratios are others")
        ratios = [
            row["closed_form_over_certified"], row["best_over_certified"], row["closed_form_over_best"],
            row["position_only_certified_excess"] / row["best_excess"],
        ]  # fmt: skip
        setting = [str(row[name]) for name in ("draw", "d", "L", "M")]
        lines.append([*setting, f"{row['certified_excess']:.2e}", *map(short, ratios)])
    return [table(lines)]


def readme_minimisers(rows: Rows) -> list[str]:
    """The README's count, which is of the free draws."""
    free = [row for row in rows if row["queries"] == "free"]
    return [f"REFUTED in {sum(row['minimiser_certainly_uses_content'] for row in free)} of {len(free)} draws"]


def comparison(rows: Rows) -> list[str]:
    """The table of other constraints, and the figures around it."""
    names = {
        "linf": "linf, M = 3/2", "l2-around": "l2, around", "l2-same": "l2, same",
        "coupled-same": "coupled, M = 3/2", "coupled-inside": "coupled, inside",
    }  # fmt: skip

    def of(queries: str, variant: str) -> Rows:
        return [row for row in rows if (row["queries"], row["variant"]) == (queries, variant)]

    def over_bound(queries: str, variant: str) -> float:
        return float(max(row["loss"] / row["lower_bound"] for row in of(queries, variant)))

    found = {(line["queries"], line["variant"]): line for line in minimiser_comparison.summary(rows)}
    lines = []
    for (queries, variant), one in found.items():
        spreads = [
            "{median:.3g} ({least:.3g} to {largest:.3g})".format(**one[field]) for field in ("loss", "excess", "length")
        ]
        further = f"{one['copies_further_than_linf']} / {one['copies_less_far_than_linf']}"
        bound = short(over_bound(queries, variant))
        below = str(one["draws_below_paper_length"])
        lines.append([queries, names[variant], *spreads[:2], bound, spreads[2], further, below])
    around = found["tied", "l2-around"]
    radii = [
        f"{found[queries, 'l2-around']['bound']['median']:.1f} for the {of(queries, 'l2-around')[0]['parameters']}"
        for queries in ("free", "tied")
    ]
    inside = f"{found['free', 'coupled-inside']['bound']['median']:.3g}"
    energy = max(over_bound(queries, variant) for queries in ("free", "tied") for variant in ("l2-around", "l2-same"))
    coupled = found["free", "coupled-same"]
    digits = floor(-log10(coupled["loss"]["median"] / coupled["lower_bound"]["median"] - 1))
    lengths = median([row["length"] for row in of("tied", "linf")]) / around["length"]["median"]
    all_of = "all twenty" if around["copies_less_far_than_linf"] == 20 else "some"
    return [
        table(lines),
        f"({radii[0]} parameters of the free reading, {radii[1]} of the tied one)",
        f"*inside* has entries so small ({inside})",
        f"shorter in {all_of} draws, by a factor of {lengths:.0f} in the median, and below the paper's length in "
        f"{around['draws_below_paper_length']}. Its best points",
        f"within {over_bound('free', 'coupled-inside'):.3g} (free) and {over_bound('tied', 'coupled-inside'):.3g} "
        "(tied) of it",
        f"which the free searches reach to {digits} digits in the median",
        f"That is within {energy:.1f} of the best loss found in every draw.",
        f"The paper's length is {minimiser_comparison.LENGTH ** (sqrt(minimiser_comparison.DIMENSION) / 2):.0f}.",
    ]


# docs/theorem-3-1.md, docs/theorem-4-1.md, README.md


def several_heads(rows: Rows) -> list[str]:
    """One, two and three heads."""
    found = results_of(rows)["several_heads"]
    return [
        table(
            [heads, str(one["copies_all_strings_up_to"]), one["exact_margin"],
             f"length {one['copies_all_strings_up_to'] + 1}: not found in {one['starts_tried_beyond']} starts"]
            for heads, one in found.items()
        )
    ]  # fmt: skip


def readme_heads(rows: Rows) -> list[str]:
    """The README's line of several heads, and the certified length."""
    found = results_of(rows)
    reached = {heads: one["copies_all_strings_up_to"] for heads, one in found["several_heads"].items()}
    return [
        f"two heads copy all strings up to {reached['2']}, three up to {reached['3']} (a = b = 2)",
        f"at rho = 20000, d = 120 about {found['furthest_length']['median']} where 10^43 is printed",
    ]


def typical_length(rows: Rows) -> list[str]:
    """Medians over the typical length, and the furthest certified one."""
    found = results_of(rows)
    ratios = [one["median_over_typical"] for one in found["typical_length"].values()]
    (draws,) = {one["draws"] for one in found["typical_length"].values()}
    return [
        f"the medians of {draws} draws lie within {min(ratios):.2f} and {max(ratios):.2f} of it",
        f"up to about {found['furthest_length']['median']} in a third of a second",
    ]


def separation_speed(rows: Rows) -> list[str]:
    """Words for the times of the separation certificate."""
    seconds = {row["name"]: row["value"] for row in rows}
    certificate, furthest = seconds["separation certificate, L = rho^(d/12)"], seconds["furthest certified length"]
    few = "a few hundredths of a second" if 0.01 <= certificate < 0.1 else f"{certificate:.2f} s"
    third = "a third of a second" if 0.28 <= furthest < 0.39 else f"{furthest:.2f} s"
    return [f"up to 10^43 in {few}, and up to about 10^174 in {third}."]


FIGURES = (
    Figure("docs/certify.md", "certify_seeds", trained_seeds),
    Figure("docs/certify.md", "certify_campaign", campaign),
    Figure("docs/certify.md", "certify_hostile", hostile),
    Figure("docs/certify.md", "certify_forged", forged),
    Figure("docs/certify.md", "certify_branching", branching),
    Figure("docs/training.md", "training", half_hour),
    Figure("docs/training.md", "training", trained),
    Figure("docs/training.md", "training", repetition),
    Figure("docs/training.md", "training", lists),
    Figure("README.md", "training", readme_training),
    Figure("docs/theorem-4-2.md", "minimisers", minimiser_counts),
    Figure("docs/theorem-4-2.md", "minimisers", minimiser_table),
    Figure("README.md", "minimisers", readme_minimisers),
    Figure("docs/theorem-4-2.md", "minimiser_comparison", comparison),
    Figure("docs/theorem-3-1.md", "acceptance", several_heads),
    Figure("README.md", "acceptance", readme_heads),
    Figure("docs/theorem-4-1.md", "acceptance", typical_length),
    Figure("docs/theorem-4-1.md", "benchmarks", separation_speed),
)


if __name__ == "__main__":
    for figure in FIGURES:
        print(f"## {figure.page}, {figure.texts.__name__}\n", *figure.written(), sep="\n", end="\n\n")
