"""Searches for minimisers of the population loss under a norm bound: many starts, seeded, saved as they finish.

- *closed form*: the closed form of `theorem_4_2`, polished (see `polish`);
- *linear programme*, *content programme*: the heads that programmes of `theory` propose, polished;
- *L-BFGS-B* (scipy, with the box as bounds) from random points;
- *Adam* and *sign descent* (torch), projected onto the constraint after every step, from random points.

All minimise the logarithm of the excess over the trivial floor, which has the same minimisers as the loss. Start k
depends on (seed, k) alone, so runs can be split and resumed, and more starts may be asked for later. A search shows
nothing but the point that it found: its label is *sampled*, and every start is kept, whatever became of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from constructions.theorem_4_2._models import ProgrammeMethod, Theta, closed_form, with_avoiding_keys
from constructions.theorem_4_2._problem import (
    Method,
    MinimiserProblem,
    RejectedThetaError,
    Start,
    failed,
    judged,
    require_as_claimed,
)
from engine import write_atomically
from theory import InputError
from theory.minimisers import HeadWeights
from theory.numbers import require_at_least

#: The methods of the random starts, in turn.
SEARCHES: tuple[Method, ...] = ("L-BFGS-B", "Adam", "sign-descent")

#: The methods that end in `polish`.
POLISHED: tuple[Method, ...] = ("closed-form", "linear-programme", "content-programme")

#: Iterations of Adam and of sign descent; their steps shrink linearly to 0 from this fraction of M.
TORCH_ITERATIONS, FIRST_STEP = 1500, 0.1

LBFGS_OPTIONS = {"maxiter": 3000, "maxfun": 4000, "ftol": 1e-14, "gtol": 1e-10, "maxcor": 20}

#: Random starts are uniform on the box of this range of sizes (log-uniform), in units of M.
START_SIZES = (0.05, 1.0)

#: Rounds of discrete moves in a polish.
MOST_SWEEPS = 6

STARTS = "starts"

#: Most random starts of one search, some hours.
MOST_STARTS = 10_000


class _LogExcess(torch.autograd.Function):
    """The searched objective in torch, with the exact gradient of the tables."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, problem: MinimiserProblem) -> Tensor:
        """The value; the gradient is kept for the way back."""
        value, gradient = problem.log_excess(theta.detach().numpy())
        ctx.save_for_backward(torch.from_numpy(gradient))
        return torch.tensor(value, dtype=torch.float64)

    @staticmethod
    def backward(ctx: Any, *by_value: Tensor) -> tuple[Tensor, None]:
        """The gradient by theta."""
        (gradient,) = ctx.saved_tensors
        return gradient * by_value[0], None


@dataclass(frozen=True, eq=False)
class Found:
    """A start and the point it came to, None if it failed."""

    start: Start
    theta: Theta | None


def search_minimisers(
    problem: MinimiserProblem,
    starts: int,
    out: Path,
    heads: Mapping[ProgrammeMethod, HeadWeights] | None = None,
    tick: Callable[[], None] = lambda: None,
) -> list[Found]:
    """Every start: the closed form and the given heads, polished (decoupled only), then `starts` random ones.

    Args:
        problem: what to minimise.
        starts: number of random starts, at least 0.
        out: directory; each finished start is saved below `starts/`, and used again when it is there already.
        heads: further points to start from, by method, as from `programme_heads`; within the constraint of linf.
        tick: called after each start.

    Raises:
        InputError: more than MOST_STARTS starts, or `out` holds starts of another problem, or one that the checker
            rejects.

    Cost: some thousand evaluations of the loss for each start, at d = 16, L = 5 about a second.
    """
    require_at_least("starts", starts, 0)
    if starts > MOST_STARTS:
        raise InputError("starts", starts, f"at most {MOST_STARTS}")
    found = []
    for name, method, run in _tasks(problem, starts, heads or {}):
        path = out / STARTS / f"{name}.json"
        one = _read(problem, path, name, method) if path.exists() else _run(problem, name, method, run)
        if not path.exists():
            _write(problem, path, one)
        found.append(one)
        tick()
    return found


def best_of(found: Sequence[Found]) -> Found:
    """The start with the least excess.

    Raises:
        ValueError: all failed.
    """
    finished = [one for one in found if one.start.excess is not None]
    if not finished:
        raise ValueError("every start failed")
    return min(finished, key=lambda one: one.start.excess or 0.0)


def count_starts(problem: MinimiserProblem, starts: int, heads: int) -> int:
    """How many starts `search_minimisers` makes if it is given so many heads."""
    return starts + (1 + heads if problem.parametrisation == "decoupled" else 0)


_Run = Callable[[], tuple[Theta, int]]
_Objective = Callable[[Theta], tuple[float, Theta]]


def _tasks(
    problem: MinimiserProblem, starts: int, heads: Mapping[ProgrammeMethod, HeadWeights]
) -> Iterator[tuple[str, Method, _Run]]:
    """Name, method and search of every start."""
    if problem.parametrisation == "decoupled":
        yield "closed-form", "closed-form", partial(_from_closed_form, problem)
        for proposed, head in heads.items():
            yield proposed, proposed, partial(_from_head, problem, head)
    for number in range(1, starts + 1):
        method = SEARCHES[(number - 1) % len(SEARCHES)]
        yield f"search-{number:04d}", method, partial(_from_random_point, problem, number, method)


def _run(problem: MinimiserProblem, name: str, method: Method, run: _Run) -> Found:
    try:
        theta, evaluations = run()
        return Found(judged(problem, name, method, theta, evaluations), theta)
    except (RejectedThetaError, FloatingPointError) as error:
        return Found(failed(name, method, str(error)), None)


def _from_head(problem: MinimiserProblem, head: HeadWeights) -> tuple[Theta, int]:
    theta = problem.project(problem.parameters.theta(head))
    return _lbfgs(problem, theta) if problem.norm == "l2" else polish(problem, theta)


def _from_closed_form(problem: MinimiserProblem) -> tuple[Theta, int]:
    plain, first = _from_head(problem, closed_form(problem.setting))
    if problem.norm == "l2":
        return plain, first
    theta = problem.project(problem.parameters.theta(closed_form(problem.setting)))
    data, second = polish(problem, theta, data_only=True)
    head = with_avoiding_keys(problem.setting, problem.parameters.head(data))
    other, third = polish(problem, problem.parameters.theta(head))
    better = min((plain, other), key=lambda point: problem.log_excess(point)[0])
    return better, first + second + third


def _from_random_point(problem: MinimiserProblem, number: int, method: Method) -> tuple[Theta, int]:
    generator = np.random.default_rng(np.random.SeedSequence([problem.seed, number]))
    low, high = np.log(START_SIZES)
    size = float(problem.largest_entry * np.exp(generator.uniform(low, high)))
    theta = problem.project(generator.uniform(-size, size, problem.parameters.size))
    return _lbfgs(problem, theta) if method == "L-BFGS-B" else _projected(problem, theta, method)


def polish(problem: MinimiserProblem, theta: Theta, *, data_only: bool = False) -> tuple[Theta, int]:
    """L-BFGS-B, alternating with discrete moves until none lowers the loss; and the number of evaluations.

    The moves are new corners for the data tokens' queries and keys in one pair, then flips of single entries. The first
    matter where rows are hard to tell apart: the query c always sees its own token, c, at (0, 0), and keys that differ
    between 0 and 1 in a pair let it look away from its own kind, which no position-only solution can do. `data_only`
    leaves the tokens of A and B out of the loss. Decoupled and linf only.
    """
    objective = partial(problem.log_excess, data_only=data_only)
    theta, evaluations = _lbfgs(problem, theta, objective)
    for _ in range(MOST_SWEEPS):
        moved, more = _pair_sweep(problem, theta, objective)
        evaluations += more
        if not data_only:
            moved = _flip_sweep(moved, objective)
            evaluations += theta.size
        if (moved == theta).all():
            break
        theta, more = _lbfgs(problem, moved, objective)
        evaluations += more
    return theta, evaluations


def _pair_sweep(problem: MinimiserProblem, theta: Theta, objective: _Objective) -> tuple[Theta, int]:
    """For each pair in turn the best corners of k_1 and of the queries of 0 and 1 (tied: of the one query), where that
    lowers the loss.

    k_0 stays at its own: turning all queries and keys of a pair by 90 degrees changes no score.
    """
    best, theta, evaluations = objective(theta)[0], theta.copy(), 0
    queries, keys, _ = problem.parameters.parts(theta)  # views
    own = min(len(queries), 2)
    corners = problem.largest_entry * np.array(list(product((-1.0, 1.0), repeat=2)))
    for x in range(0, problem.setting.d, 2):
        places = slice(x, x + 2)
        kept = queries[:own, places].copy(), keys[1, places].copy()
        for chosen in product(corners, repeat=own + 1):
            queries[:own, places], keys[1, places] = chosen[:own], chosen[own]
            value = objective(theta)[0]
            evaluations += 1
            if value < best:
                best, kept = value, (queries[:own, places].copy(), keys[1, places].copy())
        queries[:own, places], keys[1, places] = kept
    return theta, evaluations


def _flip_sweep(theta: Theta, objective: _Objective) -> Theta:
    """Entries flipped to the other side in turn, wherever that lowers the loss."""
    best, theta = objective(theta)[0], theta.copy()
    for place in range(theta.size):
        theta[place] *= -1
        value = objective(theta)[0]
        if value < best:
            best = value
        else:
            theta[place] *= -1
    return theta


def _lbfgs(problem: MinimiserProblem, theta: Theta, objective: _Objective | None = None) -> tuple[Theta, int]:
    objective = problem.log_excess if objective is None else objective
    if problem.norm == "linf":
        m = problem.largest_entry
        done = minimize(
            objective, theta, jac=True, method="L-BFGS-B", bounds=[(-m, m)] * theta.size, options=LBFGS_OPTIONS
        )
        return problem.project(done.x), int(done.nfev)
    radius = float(problem.square_radius) ** 0.5

    def within_ball(u: Theta) -> tuple[float, Theta]:
        """The objective at R u / max(1, |u|), which covers the ball without a constraint."""
        norm = max(1.0, float(np.linalg.norm(u)))
        value, gradient = objective(radius * u / norm)
        along = u / norm if norm > 1 else np.zeros_like(u)
        return value, radius / norm * (gradient - along * float(along @ gradient))

    done = minimize(within_ball, theta / radius, jac=True, method="L-BFGS-B", options=LBFGS_OPTIONS)
    return problem.project(radius * done.x / max(1.0, float(np.linalg.norm(done.x)))), int(done.nfev)


def _projected(problem: MinimiserProblem, theta: Theta, method: Method) -> tuple[Theta, int]:
    """Projected Adam or sign descent in torch; the best point on the way, and the number of evaluations."""
    point = torch.from_numpy(theta.copy()).requires_grad_()
    first = FIRST_STEP * problem.largest_entry
    adam = _Adam(point)
    best, best_theta = np.inf, theta
    for iteration in range(TORCH_ITERATIONS):
        value: Tensor = _LogExcess.apply(point, problem)  # type: ignore[no-untyped-call]
        if value.item() < best:
            best, best_theta = value.item(), point.detach().numpy().copy()
        (gradient,) = torch.autograd.grad(value, point)
        step = first * (1 - iteration / TORCH_ITERATIONS)
        direction = adam.direction(gradient) if method == "Adam" else gradient.sign()
        moved = point.detach() - step * direction
        point = torch.from_numpy(problem.project(moved.numpy())).requires_grad_()
    return best_theta, TORCH_ITERATIONS


class _Adam:
    """Adam's direction (Kingma and Ba 2015, their constants), without the projection."""

    def __init__(self, point: Tensor) -> None:
        self.mean, self.square, self.count = torch.zeros_like(point), torch.zeros_like(point), 0

    def direction(self, gradient: Tensor) -> Tensor:
        """The bias-corrected mean gradient over the root of the mean square."""
        self.count += 1
        self.mean = self.mean.lerp(gradient, 0.1)
        self.square = self.square.lerp(gradient.square(), 0.001)
        scale = (self.square / (1 - 0.999**self.count)).sqrt() + 1e-12
        return self.mean / (1 - 0.9**self.count) / scale


def _settings(problem: MinimiserProblem, method: Method) -> dict[str, Any]:
    """What a saved start depends on."""
    return {
        "problem": problem.document(),
        "lbfgs": LBFGS_OPTIONS,
        "iterations": TORCH_ITERATIONS,
        "first_step": FIRST_STEP,
        "start_sizes": list(START_SIZES),
    } | ({"most_sweeps": MOST_SWEEPS, "polish": "plain, data only"} if method in POLISHED else {})


def _write(problem: MinimiserProblem, path: Path, found: Found) -> None:
    theta = None if found.theta is None else found.theta.tolist()
    document = {"settings": _settings(problem, found.start.method), "start": found.start.document(), "theta": theta}
    write_atomically(path, json.dumps(document).encode())


def _read(problem: MinimiserProblem, path: Path, name: str, method: Method) -> Found:
    """A start that was saved, checked."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        start = Start(**document["start"])
        theta = None if document["theta"] is None else np.array(document["theta"], dtype=np.float64)
        settings = document["settings"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError("--out", str(path), "a start saved by this command, or absent") from error
    if (start.name, start.method) != (name, method) or (theta is None) != (start.status == "failed"):
        raise InputError("--out", str(path), "a start saved by this command, or absent")
    if settings != _settings(problem, method):
        raise InputError("--out", str(path), "a directory for one problem: this start was made with other arguments")
    try:
        if theta is not None:
            require_as_claimed(problem, theta, start)
    except RejectedThetaError as error:
        raise InputError("--out", str(path), f"a start that the checker accepts ({error})") from error
    return Found(start, theta)
