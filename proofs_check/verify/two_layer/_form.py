"""The form of a two-layer copier: what it computes in real arithmetic if the stored weights are of this form.

Layer 1 answers every data token (and B_b, which asks step 1) with a unit vector in the plane of the A anchors before
the B anchors are seen, and mostly in the plane of the B anchors after that; layer 2 compares such vectors, by S times
an inner product, and its values are +1 for 0, -1 for 1, and 0 for all other tokens, times one vector that the
read-out sees. docs/certificates.md numbers the conditions 1 to 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from proofs_check.verify.reading import Matrix, Rejected, Vector
from proofs_check.verify.two_layer._model import READOUT, Turning, TwoLayerModel


@dataclass(frozen=True)
class Form:
    """What copying depends on, of weights of the form; exact.

    Attributes:
        model: the weights.
        before, after: what the turning pairs add to the score of an A anchor and of a B anchor, for the same pairs in
            the same order; pairs that add nothing to either are left out.
        lift: what the still pairs add to the score of a B anchor beyond that of an A anchor.
        scale: S.
        marker: mu if the anchors share a plane, None if they have planes of their own or the layout is trained.
        values: (v1, v2, v3) in the trained layout, else None.
    """

    model: TwoLayerModel
    before: tuple[Turning, ...]
    after: tuple[Turning, ...]
    lift: Fraction
    scale: Fraction
    marker: Fraction | None
    values: tuple[Fraction, Fraction, Fraction] | None


def read_form(model: TwoLayerModel, answers: bool = True) -> Form:
    """The form of these weights, compared exactly.

    Args:
        model: the weights.
        answers: require point 4 too, what layer 2 answers with.

    Raises:
        Rejected: they are not of the form.
    Cost: a product of each matrix with a few vectors, and of layer 1's and 2's values with all embeddings.
    """
    query = _shared_query(model)
    early, late = _shared_keys(model)
    marker, values = _trained_values(model) if model.trained else _theory_values(model)
    separate = not model.trained and marker is None
    scale = _second_scores(model, separate)
    if answers:
        _require_answers(model)
    pairs = zip(model.turning(query, early), model.turning(query, late), strict=True)
    turning = [(a, b) for a, b in pairs if a.square or b.square]
    lift = model.still_product(query, late) - model.still_product(query, early)
    return Form(model, tuple(a for a, _ in turning), tuple(b for _, b in turning), lift, scale, marker, values)


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise Rejected(f"the stored weights are not of the two-layer copier's form: {what}")


def _all_equal(vectors: list[Vector]) -> bool:
    return all(vector == vectors[0] for vector in vectors)


def _asking(model: TwoLayerModel) -> tuple[int, int, int]:
    return 0, 1, model.after[-1]


def _shared_query(model: TwoLayerModel) -> Vector:
    """Point 1."""
    queries = [model.part(0, "query").times(model.word(token)) for token in _asking(model)]
    _must(_all_equal(queries), "0, 1 and B_b ask different questions in layer 1")
    return queries[0]


def _shared_keys(model: TwoLayerModel) -> tuple[Vector, Vector]:
    """Keys of the A anchors and of the B anchors; in the trained layout all three anchors have one key."""
    key = model.part(0, "key")
    early = [key.times(model.word(token)) for token in model.before[-2:]]
    late = [key.times(model.word(token)) for token in (model.after if model.trained else model.after[-2:])]
    _must(_all_equal(early) and _all_equal(late), "anchors of one pair have different keys in layer 1")
    _must(not model.trained or early[0] == late[0], "anchors have different keys in layer 1")
    return early[0], late[0]


def _values(model: TwoLayerModel, anchors: tuple[int, ...]) -> list[Vector]:
    """Layer 1's values of the anchors; all others must be 0."""
    value = model.part(0, "value")
    for token in range(model.vocabulary):
        if token not in anchors:
            _must(not value.times(model.word(token)), f"token {token} has a value in layer 1")
    return [value.times(model.word(token)) for token in anchors]


def _theory_values(model: TwoLayerModel) -> tuple[Fraction | None, None]:
    """Point 2 of the theory layout: None for separate planes, mu for a shared one."""
    width = model.part(0, "value").height
    _must(width in (3, 4), f"value_width is {width}")
    vectors = _values(model, (*model.before[-2:], *model.after[-2:]))
    v = vectors[0].get(0, Fraction(0))
    _must(v != 0, "A_{a-1} has no value")
    if width == 4:
        _must(vectors == [{j: v} for j in range(4)], "the values of the anchors are not v e_1 .. v e_4")
        return None, None
    m = vectors[2].get(2, Fraction(0))
    _must(m != 0, "there is no marker")
    _must(vectors == [{0: v}, {1: v}, {0: v, 2: m}, {1: v, 2: m}], "the values of the anchors do not share a plane")
    return abs(m / v), None


def _trained_values(model: TwoLayerModel) -> tuple[None, tuple[Fraction, Fraction, Fraction]]:
    """Point 2 of the trained layout."""
    width = model.part(0, "value").height
    _must(width == 3, f"value_width is {width}")
    vectors = _values(model, model.after)
    v1, v2, v3 = (vector.get(j, Fraction(0)) for j, vector in enumerate(vectors))
    _must(v1 > 0 and v2 > 0 and v3 > 0, "a value of an anchor is not positive")
    _must(vectors == [{0: v1}, {1: v2}, {2: v3}], "the values of the anchors are not along the axes")
    return None, (v1, v2, v3)


def columns_of(matrix: Matrix) -> list[Vector]:
    """The columns of a matrix, exact, without zeros."""
    columns: list[Vector] = [{} for _ in range(matrix.width)]
    for index in range(matrix.height):
        for column, entry in matrix.row(index).items():
            columns[column][index] = entry
    return columns


def _second_scores(model: TwoLayerModel, separate: bool) -> Fraction:
    """Point 3: S."""
    query, key = model.part(1, "query"), model.part(1, "key")
    _must(not any(query.times(model.word(token)) for token in _asking(model)), "0, 1 or B_b itself asks in layer 2")
    _must(not any(key.times(model.word(token)) for token in (0, 1)), "0 or 1 itself is a key in layer 2")
    columns = columns_of(model.part(0, "output"))
    queries, keys = [query.times(column) for column in columns], [key.times(column) for column in columns]
    _must(all(index < model.still for vector in queries for index in vector), "layer 2 asks by turning pairs")
    first, second = ((2, 0), (3, 1)) if separate else ((0, 0), (1, 1))
    scale = inner(queries[first[0]], keys[first[1]])
    _must(scale > 0, "S is not positive")
    for i, asked in enumerate(queries):
        for j, found in enumerate(keys):
            wanted = scale if (i, j) in (first, second) else Fraction(0)
            _must(inner(asked, found) == wanted, "layer 2's scores are not S times the planes' inner product")
    return scale


def _require_answers(model: TwoLayerModel) -> None:
    """Point 4."""
    value = model.part(1, "value")
    _must(
        not any(value.times(column) for column in columns_of(model.part(0, "output"))),
        "layer 2 answers what layer 1 says",
    )
    zero, one = (value.times(model.word(token)) for token in (0, 1))
    _must(zero == {index: -entry for index, entry in one.items()}, "the values of 0 and 1 are not opposite in layer 2")
    _must(
        not any(value.times(model.word(token)) for token in range(2, model.vocabulary)),
        "a token other than 0 and 1 has a value in layer 2",
    )
    reading = reading_vector(model)
    answer = model.part(1, "output").row_times(reading)
    _must(inner(answer, zero) > 0, "the read-out does not answer 0 for the value of 0")
    _must(not model.part(0, "output").row_times(reading), "the read-out reads layer 1")
    _must(
        not any(inner(reading, model.word(token)) for token in _asking(model)),
        "the read-out reads the embedding of 0, 1 or B_b",
    )


def reading_vector(model: TwoLayerModel) -> Vector:
    """Row 0 minus row 1 of the read-out, without zeros."""
    difference = model.matrix(READOUT).row(0)
    for index, entry in model.matrix(READOUT).row(1).items():
        difference[index] = difference.get(index, Fraction(0)) - entry
    return {index: entry for index, entry in difference.items() if entry}


def inner(left: Vector, right: Vector) -> Fraction:
    """Inner product."""
    return sum((x * right[index] for index, x in left.items() if index in right), Fraction(0))
