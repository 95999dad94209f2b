"""The independent checker on certificates written by hand here, against brute force and mpmath."""

import cmath
import functools
import hashlib
import itertools
import json
import math
import random
import struct
import subprocess
import sys
from fractions import Fraction

import mpmath
import pytest
from flint import fmpz_mat

from proofs_check.verify import UnreadableCertificateError, verify_file
from proofs_check.verify.grid import _scan
from proofs_check.verify.grid._model import Term
from proofs_check.verify.grid._waves import WaveSum
from proofs_check.verify.reading import Turns, working_precision

EMBEDDING, READOUT = "embedding.weight", "readout.weight"
QUERY, KEY, VALUE, OUTPUT = (f"blocks.0.attention.{part}.weight" for part in ("query", "key", "value", "output"))


# --- writers and a float model, all independent of the checker -------------------------------------------------


def packed(dtype, rows):
    numbers = [entry for row in rows for entry in row]
    if dtype == "BF16":
        return b"".join(struct.pack("<f", x)[2:] for x in numbers)
    return struct.pack(f"<{len(numbers)}{'d' if dtype == 'F64' else 'f'}", *numbers)


def safetensors(tensors, metadata, dtype="F64"):
    header, body = {"__metadata__": {"copycert": json.dumps(metadata)}}, b""
    for name, rows in tensors.items():
        data = packed(dtype, rows)
        offsets = [len(body), len(body) + len(data)]
        header[name] = {"dtype": dtype, "shape": [len(rows), len(rows[0])], "data_offsets": offsets}
        body += data
    return with_header(json.dumps(header), body)


def with_header(header, body):
    return struct.pack("<Q", len(header)) + header.encode() + body


class FloatModel:
    """A grid model by its tensors, evaluated from the token sequence with complex numbers."""

    def __init__(self, a, b, tensors, unit, row, column):
        self.a, self.b, self.tensors = a, b, tensors
        self.unit, self.row, self.column = unit, row, column
        turn = 2 * math.pi if unit == "turn" else 1.0
        betas = [turn * float(Fraction(x)) for x in (*row, *column)]
        self.betas = [(beta, f < len(row)) for f, beta in enumerate(betas)]
        words = tensors[EMBEDDING]
        self.queries = [self._apply(QUERY, w) for w in words]
        self.keys = [self._apply(KEY, w) for w in words]
        logits = [self._apply(READOUT, self._apply(OUTPUT, self._apply(VALUE, w))) for w in words]
        self.votes = [zero - one for zero, one in logits]
        self.score = functools.cache(self.score)

    def _apply(self, name, vector):
        return [sum(x * y for x, y in zip(row, vector, strict=True)) for row in self.tensors[name]]

    def score(self, query, key, row, column):
        total = 0.0
        for f, (beta, by_row) in enumerate(self.betas):
            q = complex(*self.queries[query][2 * f : 2 * f + 2])
            k = complex(*self.keys[key][2 * f : 2 * f + 2])
            total += (q.conjugate() * k * cmath.exp(1j * beta * (row if by_row else column))).real
        return total

    def tokens(self, string):
        return [*range(2, self.a + 2), *string, *range(self.a + 2, self.a + self.b + 2), *string]

    def numerator(self, string, step):
        """N at a step divided by the largest term, from positions counted token by token."""
        tokens = self.tokens(string)[: self.a + len(string) + self.b + step - 1]
        positions, row, last = [], 0, -1
        for t, token in enumerate(tokens):
            positions.append((row, t - 1 - last))
            if token == self.a + 2:
                row, last = row + 1, t
        query_row, query_column = positions[-1]
        terms = [
            (self.score(tokens[-1], token, r - query_row, c - query_column), self.votes[token])
            for token, (r, c) in zip(tokens, positions, strict=True)
            if self.votes[token]
        ]
        top = max(score for score, _ in terms)
        return math.fsum(math.exp(score - top) * vote for score, vote in terms)

    def wrong(self, string, step, margin=1e-9):
        # Weights are at most 1: floats are off by some 10^-14 here, so that the sign of more than 10^-9 is certain.
        n = self.numerator(string, step) * (1 if string[step - 1] == 0 else -1)
        assert abs(n) > margin
        return n < 0

    def copies_all(self, n):
        return not any(
            self.wrong(string, step) for string in itertools.product((0, 1), repeat=n) for step in range(1, n + 1)
        )

    @property
    def metadata(self):
        model = len(self.tensors[EMBEDDING][0])
        return {
            "construction": "grid-copier",
            "a": self.a,
            "b": self.b,
            "rho": "100",
            "budget": "paper",
            "frequencies": {"unit": self.unit, "row": self.row, "column": self.column},
            "config": {
                "vocabulary_size": self.a + self.b + 2,
                "model_width": model,
                "layers": 1,
                "heads": 1,
                "head_width": 2 * len(self.betas),
                "value_width": len(self.tensors[VALUE]),
                "outputs": 2,
                "position": "grid",
                "residual": False,
                "pre_norm": False,
                "sub_norm": False,
                "final_norm": False,
                "score_scale": 1,
                "mlp_width": 0,
            },
        }

    def file(self):
        return safetensors(self.tensors, self.metadata)


def position_only(a, b, row, column, query, key, unit="turn"):
    """Every token asks `query` and answers `key` (coordinates of all pairs); 0 votes +1 and 1 votes -1."""
    tensors = {
        EMBEDDING: [[1.0, 1.0], [1.0, -1.0], *([1.0, 0.0] for _ in range(a + b))],
        QUERY: [[x, 0.0] for x in query],
        KEY: [[x, 0.0] for x in key],
        VALUE: [[0.0, 1.0]],
        OUTPUT: [[0.0], [1.0]],
        READOUT: [[0.0, 0.5], [0.0, -0.5]],
    }
    return FloatModel(a, b, tensors, unit, row, column)


def ideal(a, b, row, column, scale, unit="turn"):
    """Scores `scale * sum cos(beta (r - wanted))`, up to the rounding of the stored query."""
    turn, query = (2 * math.pi if unit == "turn" else 1.0), []
    for x in row:
        query += [scale * math.cos(turn * float(Fraction(x))), -scale * math.sin(turn * float(Fraction(x)))]
    for x in column:
        angle = turn * float(Fraction(x)) * (a + 2 - b)
        query += [scale * math.cos(angle), scale * math.sin(angle)]
    return position_only(a, b, row, column, query, [1.0, 0.0] * (len(row) + len(column)), unit)


class Bench:
    """Writes files into a directory and has them checked."""

    def __init__(self, directory):
        self.directory = directory

    def weights(self, data, name="weights.safetensors"):
        data = data if isinstance(data, bytes) else data.file()
        (self.directory / name).write_bytes(data)
        return {"weights": {"file": name, "sha256": hashlib.sha256(data).hexdigest()}}

    def check(self, kind, inputs, claim, evidence=None):
        document = {"schema": 1, "kind": kind, "inputs": inputs, "evidence": evidence or {}, "claim": claim}
        return self.check_text(json.dumps(document))

    def check_text(self, text):
        path = self.directory / "certificate.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return verify_file(path)

    def accepts(self, *arguments):
        verdict = self.check(*arguments)
        assert (verdict.reason is None) == verdict.accepted == (verdict.statement is not None)
        return verdict.accepted

    def scan(self, inputs, copies, fails=None):
        return self.accepts("grid-scan", inputs, {"copies_up_to": copies, "fails_at": fails})


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


# --- envelope and JSON -----------------------------------------------------------------------------------------

LEMMA = {
    "schema": 1,
    "kind": "cosine-lemma",
    "inputs": {"delta_below": "0.1"},
    "evidence": {},
    "claim": {"constant": "1"},
}


def test_the_public_face(bench):
    verdict = bench.check_text(json.dumps(LEMMA))
    assert verdict.accepted and verdict.reason is None and verdict.file == str(bench.directory / "certificate.json")
    assert verdict.statement == (
        "For theta uniform on [0, 2 pi] and all 0 < delta < 1/10: P(cos theta >= 1 - delta) <= 1 sqrt(delta)."
    )
    with pytest.raises(AttributeError):
        verdict.accepted = False


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"schema": True},
        {"schema": "1"},
        {"schema": None},
        {"kind": "cosine"},
        {"kind": None},
        {"kind": ["cosine-lemma"]},
        {"inputs": {}},
        {"inputs": []},
        {"inputs": {"delta_below": "0.1", "x": 1}},
        {"evidence": {"x": 1}},
        {"evidence": None},
        {"claim": 1},
        {"claim": {"constant": True}},
        {"claim": {"constant": "1/0"}},
        {"claim": {"constant": "1e3"}},
        {"claim": {"constant": "1e999999999"}},
        {"claim": {"constant": " 1"}},
        {"claim": {"constant": "1_0"}},
        {"claim": {"constant": "\u0661"}},
        {"claim": {"constant": "1/-2"}},
        {"claim": {"constant": "inf"}},
        {"claim": {"constant": "nan"}},
        {"claim": {"constant": "9" * 30_000}},
        {"claim": {"constant": [1]}},
        {"claim": {"constant": {"a": 1}}},
        {"claim": {"constant": None}},
        {"claim": {"constant": ""}},
        {"claim": {"constant": 2**53 + 1}},
        {"prose": "hello"},
    ],
)
def test_a_changed_envelope_is_rejected(bench, change):
    verdict = bench.check_text(json.dumps(LEMMA | change))
    assert not verdict.accepted and verdict.statement is None
    assert verdict.reason and "\n" not in verdict.reason and len(verdict.reason) < 300


@pytest.mark.parametrize("number", ["1.0", "1e5", "NaN", "Infinity", "-Infinity", "9" * 5000, "9007199254740993"])
def test_numbers_that_are_not_small_integers_are_rejected(bench, number):
    text = json.dumps(LEMMA).replace('"constant": "1"', f'"constant": {number}')
    assert not bench.check_text(text).accepted


@pytest.mark.parametrize("twice", ['"schema": 1,', '"claim": {"constant": "1", "constant": "1"},'])
def test_duplicate_keys_are_rejected(bench, twice):
    verdict = bench.check_text(json.dumps(LEMMA).replace("{", "{" + twice, 1))
    assert not verdict.accepted and "duplicate key" in verdict.reason


@pytest.mark.parametrize("text", [b"", b"{", b"nonsense", b"\xff\xfe{}", b'{"a": 1} x', b"\xef\xbb\xbf{}", b"\x00"])
def test_what_is_not_json_is_unreadable(bench, text):
    with pytest.raises(UnreadableCertificateError):
        bench.check_text(text)


def test_missing_files_and_directories_are_unreadable(tmp_path):
    for path in (tmp_path, tmp_path / "none.json", tmp_path / ("x" * 5000), "a\0b"):
        with pytest.raises(UnreadableCertificateError):
            verify_file(path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000, "[1]", "1", '"x"', "null"])
def test_other_json_is_rejected(bench, text):
    assert not bench.check_text(text).accepted


# --- the weights file ------------------------------------------------------------------------------------------


def small_model():
    return ideal(1, 3, ["1/3"], ["3/10"], 8.0)


def tensors_with_norm_five():
    tensors = {name: [[0.0] * len(row) for row in rows] for name, rows in small_model().tensors.items()}
    tensors[EMBEDDING][0][0], tensors[READOUT][1][1] = 3.0, -4.0
    return tensors


@pytest.mark.parametrize("dtype", ["F64", "F32", "BF16"])
def test_the_norm_is_exact(bench, dtype):
    inputs = bench.weights(safetensors(tensors_with_norm_five(), small_model().metadata, dtype))
    verdict = bench.check("weights-norm", inputs, {"norm_at_most": 5})
    assert verdict.accepted and verdict.statement.endswith("is at most 5.")
    assert inputs["weights"]["sha256"][:16] in verdict.statement
    assert "real-arithmetic model with the stored binary weights" in verdict.statement
    assert bench.accepts("weights-norm", inputs, {"norm_at_most": "11/2"})
    for less in (4, "4.999999999999999999999999", -5, "-6"):
        assert not bench.accepts("weights-norm", inputs, {"norm_at_most": less})


def test_rounded_entries_are_taken_as_stored(bench):
    for dtype, stored in (("F64", Fraction(0.1)), ("F32", Fraction(struct.unpack("<f", struct.pack("<f", 0.1))[0]))):
        tensors = tensors_with_norm_five()
        tensors[EMBEDDING][0][0], tensors[READOUT][1][1] = 0.1, 0.0
        inputs = bench.weights(safetensors(tensors, small_model().metadata, dtype))
        assert bench.accepts("weights-norm", inputs, {"norm_at_most": str(stored)})
        assert not bench.accepts("weights-norm", inputs, {"norm_at_most": str(stored - Fraction(1, 10**60))})


def with_metadata(**changes):
    metadata = small_model().metadata
    config = changes.pop("config", {})
    return safetensors(small_model().tensors, metadata | changes | {"config": metadata["config"] | config})


def with_tensor(name, rows):
    return safetensors(small_model().tensors | {name: rows}, small_model().metadata)


def with_header_text(change):
    data = small_model().file()
    length = struct.unpack("<Q", data[:8])[0]
    return with_header(change(data[8 : 8 + length].decode()), data[8 + length :])


def with_entry(x):
    tensors = small_model().tensors
    tensors[KEY][0][1] = x
    return safetensors(tensors, small_model().metadata)


def renumbered(header):
    document = json.loads(header)
    document[READOUT]["data_offsets"] = document[OUTPUT]["data_offsets"]
    return json.dumps(document)


def shared(header):
    document = json.loads(header)
    document[KEY]["data_offsets"] = document[QUERY]["data_offsets"]
    return json.dumps(document)


def one_dimensional(header):
    document = json.loads(header)
    document[OUTPUT]["shape"] = [2]
    return json.dumps(document)


BAD_WEIGHTS = {
    "empty": b"",
    "short": b"\1\0\0",
    "length beyond the file": struct.pack("<Q", 2**63) + b"{}",
    "no header": struct.pack("<Q", 0),
    "header not json": with_header("{,}", b""),
    "header a list": with_header("[]", b""),
    "only metadata": with_header('{"__metadata__":{}}', b""),
    "nan": with_entry(math.nan),
    "infinity": with_entry(-math.inf),
    "trailing": small_model().file() + b"\0",
    "truncated": small_model().file()[:-1],
    "overlap": with_header_text(renumbered),
    "overlap of equal sizes": with_header_text(shared),
    "one dimension": with_header_text(one_dimensional),
    "duplicate tensor": with_header_text(lambda h: h.replace("{", '{"readout.weight": 1, ', 1)),
    "unknown dtype": with_header_text(lambda h: h.replace("F64", "F16", 1)),
    "boolean offset": with_header_text(lambda h: h.replace("[0, ", "[false, ", 1)),
    "negative shape": with_header_text(lambda h: h.replace('"shape": [', '"shape": [-', 1)),
    "no metadata": with_header_text(lambda h: h.replace("__metadata__", "__other__")),
    "nested header": with_header("[" * 50_000, b""),
    "extra tensor": with_tensor("bias", [[1.0]]),
    "wrong shape": with_tensor(VALUE, [[0.0, 1.0, 0.0]]),
    "another construction": with_metadata(construction="row-copier"),
    "budget": with_metadata(budget="free"),
    "a boolean": with_metadata(a=True),
    "a zero": with_metadata(a=0),
    "a large": with_metadata(a=10**9),
    "extra field": with_metadata(note="x"),
    "no frequencies": with_metadata(frequencies={}),
    "empty axis": with_metadata(frequencies={"unit": "turn", "row": ["1/3", "1/4"], "column": []}),
    "unit": with_metadata(frequencies={"unit": "degree", "row": ["1/3"], "column": ["3/10"]}),
    "base": with_metadata(frequencies={"base": "-3", "d": 4}),
    "base d": with_metadata(frequencies={"base": "3", "d": 6}),
    "another d": with_metadata(frequencies={"base": "3", "d": 8}),
    "two layers": with_metadata(config={"layers": 2}),
    "residual": with_metadata(config={"residual": True}),
    "residual 0": with_metadata(config={"residual": 0}),
    "scale true": with_metadata(config={"score_scale": True}),
    "scale 2": with_metadata(config={"score_scale": 2}),
    "norm": with_metadata(config={"final_norm": True}),
    "float": with_metadata(config={"score_scale": 1.0}),
    "extra config": with_metadata(config={"dropout": 0}),
    "width": with_metadata(config={"model_width": 3}),
    "head": with_metadata(config={"head_width": 6}),
}


@pytest.mark.parametrize("name", BAD_WEIGHTS)
def test_bad_weights_are_rejected(bench, name):
    inputs = bench.weights(BAD_WEIGHTS[name])
    verdict = bench.check("weights-norm", inputs, {"norm_at_most": "1000000"})
    assert not verdict.accepted and "broke off" not in verdict.reason, verdict


def test_the_reference_to_the_weights_is_checked(bench):
    good = bench.weights(small_model())["weights"]
    (bench.directory / "sub").mkdir()
    assert bench.accepts("weights-norm", {"weights": good}, {"norm_at_most": 100})
    for change in (
        {"sha256": "0" * 64},
        {"sha256": good["sha256"].upper()},
        {"sha256": 1},
        {"file": "other"},
        {"file": "../" + good["file"]},
        {"file": ""},
        {"file": "./" + good["file"]},
        {"file": str(bench.directory / good["file"])},
        {"file": "sub"},
        {"file": ".."},
        {"file": "a\0b"},
        {"file": 7},
        {"more": 1},
    ):
        verdict = bench.check("weights-norm", {"weights": good | change}, {"norm_at_most": 100})
        assert not verdict.accepted and "broke off" not in verdict.reason
    (bench.directory / good["file"]).write_bytes(with_entry(2.0**-1074))
    assert "SHA-256" in bench.check("weights-norm", {"weights": good}, {"norm_at_most": 100}).reason


# --- grid-scan -------------------------------------------------------------------------------------------------


def random_position_only(seed):
    """Models of one or two column pairs that fail at small lengths, ideal ones and ones with skewed queries."""
    draw = random.Random(seed)
    a, b = draw.randint(1, 4), draw.randint(2, 6)
    row = [f"{draw.randrange(10**6)}/1000003"]
    column = [f"{draw.randrange(10**6)}/1000003" for _ in range(draw.randint(1, 2))]
    model = ideal(a, b, row, column, draw.uniform(0.5, 7.0))
    if seed % 3 < 2:
        # Weak rows, so that the outputs seen weigh as much as the sources do.
        query = [row[0] * (0.05 if f < 2 else 1.0) for f, row in enumerate(model.tensors[QUERY])]
        model = position_only(a, b, model.row, model.column, query, [1.0, 0.0] * (1 + len(column)))
    if seed % 3 == 0:
        query = [row[0] + draw.uniform(-0.4, 0.4) for row in model.tensors[QUERY]]
        model = position_only(a, b, model.row, model.column, query, [1.0, 0.0] * (1 + len(column)))
    return model


def exact_limit(model, up_to):
    return next((n - 1 for n in range(1, up_to + 1) if not model.copies_all(n)), up_to)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_scan_agrees_with_all_strings_up_to_six(bench, seed):
    model = random_position_only(seed)
    inputs, limit = bench.weights(model), exact_limit(model, 6)
    assert bench.scan(inputs, limit)
    assert bench.scan(inputs, max(0, limit - 1))
    if limit < 6:
        assert bench.scan(inputs, limit, limit + 1) and bench.scan(inputs, 0, limit + 1)
        assert bench.scan(inputs, 0, limit + 3) and bench.scan(inputs, 0, 2_000_000)
        assert not bench.scan(inputs, limit + 1)
    if limit:
        assert not bench.scan(inputs, 0, limit)


def test_the_random_models_cover_all_outcomes():
    limits = {exact_limit(random_position_only(seed), 6) for seed in range(30)}
    assert {1, 2, 6} <= limits and len(limits) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("cut", [1, *(pytest.param(x, marks=pytest.mark.deep) for x in (2, 4))])
def test_columns_left_out_are_never_forgotten(bench, monkeypatch, cut):
    # However early the cut, no length that fails is called copied, and no copied one failing.
    for seed in range(12):
        model = random_position_only(seed)
        inputs, limit = bench.weights(model), exact_limit(model, 6)
        for n in range(1, 7):
            monkeypatch.setattr(_scan, "ATTEMPTS", ((cut - n.bit_length() - 2, 64),))
            copied, fails = bench.scan(inputs, n), bench.scan(inputs, 0, n)
            assert not (copied and n > limit) and not (fails and n <= limit)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 6])
def test_no_column_above_a_threshold_is_missed(count):
    draw = random.Random(count)
    for amplitude in (1.0, 1e4, 1e9):
        turns = [Fraction(draw.getrandbits(40), 2**40) for _ in range(count)]
        sizes = [(Fraction(draw.uniform(0, amplitude)), Fraction(draw.uniform(-amplitude, amplitude))) for _ in turns]
        with working_precision(200):
            waves = WaveSum([Term(Turns(t), *size) for t, size in zip(turns, sizes, strict=True)], 200)
            values = {r: waves.value(r) for r in range(-1500, 1501)}
            by_value = sorted(values, key=lambda r: float(values[r]))
            for r in (*by_value[:40], *draw.sample(by_value, 20), *by_value[-10:]):
                listed = set(waves.at_least(values[r].lower(), -1500, 1500))
                assert {other for other, value in values.items() if value >= values[r]} <= listed
                assert r in listed
        with mpmath.workdps(50):
            angle = [2 * mpmath.pi * 7 * t.numerator / mpmath.mpf(t.denominator) for t in turns]
            exact = sum(
                mpmath.mpf(a.numerator) / a.denominator * mpmath.cos(x)
                + mpmath.mpf(b.numerator) / b.denominator * mpmath.sin(x)
                for x, (a, b) in zip(angle, sizes, strict=True)
            )
            assert abs(mpmath.mpf(values[7].str(40, radius=False)) - exact) < abs(exact) * mpmath.mpf(10) ** -35


def exact_length_by_mpmath(model, up_to):
    """n* from the definition, with 40 digits, in O(n^2)."""
    with mpmath.workdps(40):
        query = [mpmath.mpf(row[0]) for row in model.tensors[QUERY]]
        turn = 2 * mpmath.pi if model.unit == "turn" else mpmath.mpf(1)
        betas = [
            turn * mpmath.mpf(Fraction(x).numerator) / Fraction(x).denominator for x in (*model.row, *model.column)
        ]

        def score(row, column):
            total = mpmath.mpf(0)
            for f, beta in enumerate(betas):
                angle = beta * (row if f < len(model.row) else column)
                total += query[2 * f] * mpmath.cos(angle) + query[2 * f + 1] * mpmath.sin(angle)
            return total

        o, shift = model.a + 2 - model.b, model.b - model.a - 1
        source = {k: mpmath.exp(score(-1, o + k) - score(-1, o)) for k in range(-up_to, up_to + 1)}
        output = {k: mpmath.exp(score(0, o + shift + k) - score(-1, o)) for k in range(-up_to, 0)}
        before, after = [mpmath.mpf(0)], [mpmath.mpf(0)]
        for k in range(1, up_to):
            before.append(before[-1] + source[-k] + output[-k])
            after.append(after[-1] + source[k])
        for n in range(1, up_to + 1):
            if max(before[i - 1] + after[n - i] for i in range(1, n + 1)) >= 1:
                return n - 1
    return up_to


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "column", "scale", "b"),
    [
        ("turn", ["271828/999983"], 2000.0, 3),
        ("turn", ["0.123456789", "0.987612345"], 25.0, 6),
        ("radian", ["1", "1/7"], 30.0, 4),
    ],
)
def test_scan_agrees_with_mpmath(bench, unit, column, scale, b):
    model = ideal(2, b, ["1/3"], column, scale, unit)
    limit = exact_length_by_mpmath(model, 400)
    assert 6 < limit < 400
    inputs = bench.weights(model)
    verdict = bench.check("grid-scan", inputs, {"copies_up_to": limit, "fails_at": str(limit + 1)})
    assert verdict.accepted
    assert f"every length from 1 to {limit} is copied, and at every length >= {limit + 1} some" in verdict.statement
    assert not bench.scan(inputs, limit + 1) and not bench.scan(inputs, 0, limit)


@pytest.mark.slow
def test_base_frequencies_are_radians(bench):
    model = ideal(1, 3, ["1", "1/10"], ["1", "1/10"], 30.0, "radian")
    explicit = bench.weights(model, "explicit.safetensors")
    by_base = model.metadata | {"frequencies": {"base": 100, "d": 8}}
    inputs = bench.weights(safetensors(model.tensors, by_base), "base.safetensors")
    limit = exact_length_by_mpmath(model, 300)
    assert 6 < limit < 300
    for weights in (explicit, inputs):
        assert bench.scan(weights, limit, limit + 1) and not bench.scan(weights, limit + 1)


def test_whole_turns_count_as_exactly_one(bench):
    # e(4) = 1 exactly, so length 5 fails at step 1 whatever the scale; length 4 is copied.
    quarter = bench.weights(ideal(1, 3, ["1/3"], ["3/4"], 50.0))
    assert bench.scan(quarter, 4, 5) and not bench.scan(quarter, 5) and not bench.scan(quarter, 0, 4)
    # Every column weighs 1: at length 2 the sum at step 1 is exactly 1, and nothing else; an equality fails.
    whole = bench.weights(ideal(1, 3, ["1/3"], ["2"], 50.0))
    assert bench.scan(whole, 1, 2) and not bench.scan(whole, 2)
    # Rows that turn fully as well: the output at distance 0 weighs 1 (b - a - 1 = 1, so from length 2 on).
    rows = bench.weights(ideal(1, 3, ["1"], ["1/1000003"], 5.0))
    assert bench.scan(rows, 1, 2) and not bench.scan(rows, 2)
    # No score at all: the same as whole turns everywhere.
    assert bench.scan(bench.weights(ideal(1, 3, ["1/3"], ["1/7"], 0.0)), 1, 2)


def test_an_output_and_a_later_source_together(bench):
    # e(1) = e(-1) = 0.25, e'(0) = 0.55, e(2) = 0.03: at length 3 only step 2 fails, by an output and two sources.
    query = [-0.299, 0.0, 2.006, 0.0]
    model = position_only(2, 4, ["1/2"], ["1/5"], query, [1.0, 0.0] * 2)
    assert exact_limit(model, 3) == 2 and model.wrong((0, 1, 0), 2) and not model.wrong((0, 0, 1), 3)
    inputs = bench.weights(model)
    assert bench.scan(inputs, 2, 3) and not bench.scan(inputs, 3)


@pytest.mark.parametrize(
    "claim",
    [
        {"copies_up_to": -1, "fails_at": None},
        {"copies_up_to": 2_000_001, "fails_at": None},
        {"copies_up_to": 1, "fails_at": 2_000_001},
        {"copies_up_to": None, "fails_at": None},
        {"copies_up_to": True, "fails_at": None},
        {"copies_up_to": 1},
        {"copies_up_to": 1, "fails_at": 0},
        {"copies_up_to": "1.0", "fails_at": None},
        {"copies_up_to": 1, "fails_at": False},
        {"copies_up_to": "9" * 19_000, "fails_at": None},
    ],
)
def test_bad_scan_claims_are_rejected(bench, claim):
    assert not bench.accepts("grid-scan", bench.weights(small_model()), claim)


def test_a_long_scan_is_fast_and_weak_claims_are_accepted(bench):
    # 0.30901699... is badly approximable, so no column up to 10^5 comes close to the wanted one.
    column = ["0.6180339887498948482045868343656381177203", "0.4142135623730950488016887242096980785697"]
    inputs = bench.weights(ideal(2, 3, ["1/3"], column, 2.0**40))
    assert bench.scan(inputs, 100_000) and bench.scan(inputs, 1)
    assert not bench.scan(inputs, 0, 100_000)


def test_models_that_are_not_position_only_are_rejected(bench):
    def changed(name, row, column, value):
        tensors = small_model().tensors
        tensors[name][row][column] += value
        return safetensors(tensors, small_model().metadata)

    claim = {"copies_up_to": 1, "fails_at": None}
    tiny = 2.0**-1074
    for data in (
        changed(QUERY, 0, 1, tiny),
        changed(EMBEDDING, 5, 0, 2.0**-40),
        changed(KEY, 1, 1, tiny),
        changed(EMBEDDING, 5, 1, 2.0**-60),
        changed(EMBEDDING, 2, 1, 1.0),
        changed(READOUT, 1, 1, 1.0),
        changed(EMBEDDING, 0, 1, -2.0),
        ideal(1, 1, ["1/3"], ["3/10"], 8.0),
    ):
        assert not bench.accepts("grid-scan", bench.weights(data), claim)
    # The tokens A and B_1 .. B_(b-1) neither ask nor vote: their embedding may differ.
    assert bench.accepts("grid-scan", bench.weights(changed(EMBEDDING, 2, 0, 1.0)), claim)


# --- grid-counterexample ---------------------------------------------------------------------------------------


def counterexample(bench, inputs, string, step):
    background = string[0]
    flips = [i + 1 for i, symbol in enumerate(string) if symbol != background]
    claim = {"length": len(string), "background": background, "flips": flips, "step": step}
    return bench.accepts("grid-counterexample", inputs, claim)


def random_general(seed, b):
    draw = random.Random(seed)
    a, row, column = 2, ["0.37"], ["1.3", "0.9"]
    shapes = {EMBEDDING: (a + b + 2, 4), QUERY: (6, 4), KEY: (6, 4), VALUE: (3, 4), OUTPUT: (4, 3), READOUT: (2, 4)}
    tensors = {name: [[draw.gauss(0, 1) for _ in range(w)] for _ in range(h)] for name, (h, w) in shapes.items()}
    return FloatModel(a, b, tensors, "radian", row, column)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "b"), [(1, 1), (2, 2), (3, 4)])
def test_counterexamples_of_any_model_agree_with_the_float_model(bench, seed, b):
    model = random_general(seed, b)
    inputs, outcomes = bench.weights(model), set()
    for n in (1, 2, 3, 5):
        for string in itertools.product((0, 1), repeat=n):
            for step in range(1, n + 1) if n < 5 else (1, 4):
                wrong = model.wrong(string, step)
                assert counterexample(bench, inputs, string, step) == wrong
                outcomes.add(wrong)
    assert outcomes == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 22))
def test_every_token_is_looked_at_where_it_stands(bench, seed):
    # Few symbols, so that the tokens around the string decide.
    model = random_general(seed, 1 + seed % 4)
    inputs = bench.weights(model)
    for n in (1, 2):
        for string in itertools.product((0, 1), repeat=n):
            for step in range(1, n + 1):
                assert counterexample(bench, inputs, string, step) == model.wrong(string, step)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 4, 8])
def test_counterexamples_of_position_only_models(bench, seed):
    model = random_position_only(seed)
    inputs = bench.weights(model)
    for string in itertools.product((0, 1), repeat=4):
        for step in range(1, 5):
            assert counterexample(bench, inputs, string, step) == model.wrong(string, step)


def test_a_numerator_of_exactly_zero_is_wrong(bench):
    whole = bench.weights(ideal(1, 3, ["1/3"], ["2"], 50.0))
    assert counterexample(bench, whole, (0, 1), 1) and counterexample(bench, whole, (1, 0), 1)
    assert not counterexample(bench, whole, (0, 1, 0), 1) and counterexample(bench, whole, (0, 1, 1), 1)
    quarter = bench.weights(ideal(1, 3, ["1/3"], ["1/4"], 0.0))
    assert counterexample(bench, quarter, (0, 1), 1)


@pytest.mark.slow
@pytest.mark.parametrize(("column", "n"), [(["271828/999983", "0.3141592653"], 40_000), (["1/9973"], 30_000)])
def test_long_counterexamples_agree_with_plain_sums(bench, column, n):
    outcomes = set()
    for scale in (3.0, 1e7):
        model = ideal(2, 3, ["1/3"], column, scale)
        inputs = bench.weights(model)
        for step in (1, n // 3):
            string = [0] * n
            string[step - 1] = 1
            wrong = model.wrong(string, step)
            claim = {"length": n, "background": 0, "flips": [step], "step": step}
            verdict = bench.check("grid-counterexample", inputs, claim)
            assert verdict.accepted == wrong
            assert not wrong or f"everywhere but at {step}, the answer of step {step} is not" in verdict.statement
            outcomes.add(wrong)
    assert outcomes == {True, False} or column == ["1/9973"]


@pytest.mark.parametrize(
    "change",
    [
        {"length": 0},
        {"length": 2_000_001},
        {"background": 2},
        {"background": False},
        {"flips": [2, 2]},
        {"flips": [3, 2]},
        {"flips": [0]},
        {"flips": [6]},
        {"flips": 1},
        {"flips": [True]},
        {"flips": [None]},
        {"flips": [1] * 6},
        {"step": 0},
        {"step": 6},
        {"step": "x"},
        {"note": 1},
    ],
)
def test_bad_counterexamples_are_rejected(bench, change):
    inputs = bench.weights(ideal(1, 3, ["1/3"], ["1/4"], 50.0))
    good = {"length": 5, "background": 0, "flips": [1], "step": 1}
    assert bench.accepts("grid-counterexample", inputs, good)
    verdict = bench.check("grid-counterexample", inputs, good | change)
    assert not verdict.accepted and "broke off" not in verdict.reason


# --- grid-separation -------------------------------------------------------------------------------------------

BITS, WEIGHT = 60, 2**17 + 3
ALPHAS = ["0.6180339887498948482045868343656381177203", "0.4142135623730950488016887242096980785697"]


def generators(alphas=ALPHAS, bits=BITS, weight=WEIGHT):
    step = [*(math.floor(Fraction(alpha) * 2**bits + Fraction(1, 2)) for alpha in alphas), weight]
    return [step, *([2**bits * (row == f) for row in range(len(alphas))] + [0] for f in range(len(alphas)))]


def reduced(rows):
    entries = fmpz_mat([[int(x) for x in row] for row in rows]).lll().tolist()
    return [[int(x) for x in row] for row in entries if any(row)]


def evidence(basis, bits=BITS, weight=WEIGHT):
    return {"bits": bits, "weight": str(weight), "basis": [[str(entry) for entry in row] for row in basis]}


def longest(accepts):
    low, high = 0, 1
    while accepts(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepts(middle) else (low, middle)
    return low


@pytest.mark.slow
@pytest.mark.parametrize("b", [2, 3, 4, 7])
def test_separation_agrees_with_the_scan(bench, b):
    inputs = bench.weights(ideal(2, b, ["1/3"], ALPHAS, 1e9))
    given = evidence(reduced(generators()))
    limit = longest(lambda n: bench.accepts("grid-separation", inputs, {"length": n}, given))
    assert 1000 < limit < 10**9
    assert bench.scan(inputs, min(limit, 2_000_000 if b == 4 else 50_000))
    verdict = bench.check("grid-separation", inputs, {"length": str(limit)}, given)
    assert f"every binary string of every length from 1 to {limit} is copied" in verdict.statement
    assert not bench.accepts("grid-separation", inputs, {"length": 0}, given)
    assert not bench.accepts("grid-separation", inputs, {"length": "9" * 15_000}, given)


def gram_schmidt_square(basis):
    """The smallest squared Gram-Schmidt norm, in rational arithmetic."""
    orthogonal = []
    for row in basis:
        vector = [Fraction(x) for x in row]
        for other in orthogonal:
            factor = sum(x * y for x, y in zip(row, other, strict=True)) / sum(y * y for y in other)
            vector = [x - factor * y for x, y in zip(vector, other, strict=True)]
        orthogonal.append(vector)
    return min(sum(x * x for x in vector) for vector in orthogonal)


def as_specified(model, basis, bits, weight):
    """Does the bound of the specification hold for a length? In 60 digits."""

    def real(x):
        return mpmath.mpf(Fraction(x).numerator) / Fraction(x).denominator

    def turned(pair, angle):
        x, y = real(pair[0]), real(pair[1])
        return x * mpmath.cos(angle) + y * mpmath.sin(angle), y * mpmath.cos(angle) - x * mpmath.sin(angle)

    query, rows, m = [row[0] for row in model.tensors[QUERY]], len(model.row), len(model.column)
    with mpmath.workdps(60):
        shortest = mpmath.sqrt(real(gram_schmidt_square(basis)))
        scaled = [Fraction(alpha) * 2**bits for alpha in model.column]
        error = max(real(abs(x - math.floor(x + Fraction(1, 2)))) for x in scaled)
        angle = [2 * mpmath.pi * real(alpha) for alpha in (*model.row, *model.column)]
        o = model.a + 2 - model.b
        columns = [turned(query[2 * f : 2 * f + 2], angle[f] * o) for f in range(rows, rows + m)]
        least, slope = min(x for x, _ in columns), max(abs(y) for _, y in columns)
        row_gap = sum(turned(query[2 * f : 2 * f + 2], -angle[f])[0] - real(query[2 * f]) for f in range(rows))

    def holds(n):
        with mpmath.workdps(60):
            reach = n - 1 + abs(model.b - model.a - 1)
            left = shortest - reach * error * mpmath.sqrt(m)
            delta = 8 * (left**2 - mpmath.mpf(weight * reach) ** 2) / mpmath.mpf(4) ** bits
            if left <= 0 or delta <= 0 or least * mpmath.sqrt(delta) < slope * mpmath.sqrt(mpmath.mpf(m) / 2):
                return False
            gap = least * delta - slope * mpmath.sqrt(2 * m * delta)
            wrong = (n - 1) * (mpmath.exp(-gap) + mpmath.exp(-row_gap - gap))
            if model.b >= model.a + 2 and n >= model.b - model.a:
                wrong += mpmath.exp(-row_gap)
            return wrong < 1

    return holds


@pytest.mark.slow
@pytest.mark.parametrize("b", [2, 4, 5, 300])
@pytest.mark.parametrize(("bits", "weight"), [(60, 2**17 + 3), (24, 3), (30, 97), (12, 1)])
@pytest.mark.parametrize(
    ("scale", "skew", "row"), [(1e9, 0.0, 1.0), (1e6, 1e-3, 1e-5), (1e4, 0.02, 1e-4), (1e9, 0.0, -1e-10)]
)
def test_separation_is_as_specified(bench, b, bits, weight, scale, skew, row):
    model = ideal(2, b, ["1/3"], ALPHAS, scale)
    query = [x[0] * (row if f < 2 else 1.0) for f, x in enumerate(model.tensors[QUERY])]
    query[4:] = [query[4] - skew * query[5], query[5] + skew * query[4]]
    model = position_only(2, b, model.row, model.column, query, [1.0, 0.0] * 3)
    inputs, basis = bench.weights(model), reduced(generators(ALPHAS, bits, weight))
    given, holds = evidence(basis, bits, weight), as_specified(model, basis, bits, weight)
    limit = longest(holds)
    for n in (1, 2, limit - 1, limit, limit + 1, limit + 2, 2 * limit, 10**30):
        if n >= 1:
            assert bench.accepts("grid-separation", inputs, {"length": str(n)}, given) == holds(n), n


def test_a_step_without_weight_is_rejected(bench):
    # With w = 0 the step twice is 0 modulo whole turns: no vector shows that column 2 comes full circle.
    inputs = bench.weights(ideal(2, 4, ["1/3"], ["1/2"], 1e9))
    basis = [[2**59, 0], [0, 2**59]]
    verdict = bench.check("grid-separation", inputs, {"length": 10}, evidence(basis, 60, 0))
    assert not verdict.accepted and "evidence.weight" in verdict.reason


def test_superlattices_are_accepted_and_sublattices_are_not(bench):
    inputs = bench.weights(ideal(2, 4, ["1/3"], ALPHAS, 1e9))
    basis = reduced(generators())
    # (0, .., 0, 2^P w) belongs to the lattice; half of it makes a lattice twice as dense.
    larger = reduced([*basis, [0, 0, 2 ** (BITS - 1) * WEIGHT]])
    assert abs(int(fmpz_mat(larger).det())) * 2 == abs(int(fmpz_mat(basis).det()))
    claim = {"length": 300}
    assert bench.accepts("grid-separation", inputs, claim, evidence(basis))
    assert bench.accepts("grid-separation", inputs, claim, evidence(larger))
    for row in range(3):
        smaller = [[2 * entry for entry in r] if i == row else r for i, r in enumerate(basis)]
        assert "integer combination" in bench.check("grid-separation", inputs, claim, evidence(smaller)).reason
    for row, column in itertools.product(range(3), range(3)):
        other = [[entry + (i == row and j == column) for j, entry in enumerate(r)] for i, r in enumerate(basis)]
        assert not bench.accepts("grid-separation", inputs, claim, evidence(other))


def test_other_evidence_is_rejected(bench):
    inputs = bench.weights(ideal(2, 4, ["1/3"], ALPHAS, 1e9))
    basis = reduced(generators())
    good, claim = evidence(basis), {"length": 1000}
    for change in (
        {"bits": 59},
        {"bits": 0},
        {"bits": 10**6},
        {"bits": True},
        {"weight": WEIGHT + 1},
        {"weight": 0},
        {"weight": -WEIGHT},
        {"weight": "x"},
        {"basis": basis[:2]},
        {"basis": [*basis, basis[0]]},
        {"basis": [basis[0], basis[1], basis[1]]},
        {"basis": [[0, 0, 0]] * 3},
        {"basis": []},
        {"basis": [row[:2] for row in basis]},
        {"basis": [[1]] * 5000},
        {"basis": "x"},
        {"basis": [1, 2, 3]},
        {"basis": [[True, 0, 0], [0, 1, 0], [0, 0, 1]]},
        {"basis": [[None] * 3] * 3},
        {"basis": [["1.5"] * 3] * 3},
        {"basis": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]},
        {"extra": 1},
        {"basis": [["9" * 19_999 if i == j else 0 for j in range(3)] for i in range(3)]},
    ):
        verdict = bench.check("grid-separation", inputs, claim, good | change)
        assert not verdict.accepted and "broke off" not in verdict.reason, change


def test_separation_needs_the_scale_and_the_right_frequencies(bench):
    given, claim = evidence(reduced(generators())), {"length": 1000}
    weak = bench.weights(ideal(2, 4, ["1/3"], ALPHAS, 100.0))
    assert not bench.accepts("grid-separation", weak, claim, given)
    other = bench.weights(ideal(2, 4, ["1/3"], [ALPHAS[1], ALPHAS[0]], 1e9))
    assert not bench.accepts("grid-separation", other, claim, given)
    opposite = bench.weights(ideal(2, 4, ["1/3"], ALPHAS, -1e9))
    assert not bench.accepts("grid-separation", opposite, claim, given)
    # A skewed query: B' as large as A'. The gap has a negative slope at 0 and the closest columns win.
    query = [1e9 * math.cos(2 * math.pi / 3), -1e9 * math.sin(2 * math.pi / 3), 1e9, 1e9, 1e9, 1e9]
    skewed = bench.weights(position_only(2, 4, ["1/3"], ALPHAS, query, [1.0, 0.0] * 3))
    assert not bench.accepts("grid-separation", skewed, claim, given)


def test_rounded_frequencies_of_a_period_within_the_length_do_not_deceive(bench):
    # 2^-20 turns: the columns come full circle at 2^20, whatever the lattice of the fixed-point frequencies says.
    alphas = [f"{math.floor(Fraction(alpha) * 2**20)}/{2**20}" for alpha in ALPHAS]
    inputs = bench.weights(ideal(2, 4, ["1/3"], alphas, 1e15))
    given = evidence(reduced(generators(alphas)))
    limit = longest(lambda n: bench.accepts("grid-separation", inputs, {"length": n}, given))
    assert 1000 < limit < 2**20


def test_a_large_basis_is_checked_quickly(bench):
    draw, m, bits = random.Random(0), 30, 640
    alphas = [f"{draw.getrandbits(1024)}/{2**1024}" for _ in range(m)]
    inputs = bench.weights(ideal(2, 3, ["1/3"], alphas, 1e14))
    weight = 2**20 + 7
    basis = reduced(generators(alphas, bits, weight))
    verdict = bench.check("grid-separation", inputs, {"length": 10**100}, evidence(basis, bits, weight))
    assert not verdict.accepted
    assert bench.accepts("grid-separation", inputs, {"length": "1" + "0" * 100}, evidence(basis, bits, weight))


# --- probability, cosine and ceiling ---------------------------------------------------------------------------

RATIO = {"failure_numerator": "d", "failure_denominator": "rho"}


def probability(bench, exponent, budget, d_least):
    inputs = {"exponent": exponent, "budget": budget, "d_least": d_least}
    return bench.accepts("failure-probability", inputs, RATIO)


@pytest.mark.parametrize("budget", ["paper", "three-tokens"])
def test_failure_probability(bench, budget):
    for exponent in ("1/12", "1/4", "1/3", "0.01"):
        for d_least in (1, 112, 114, 1000, 10**9, "1" + "0" * 200):
            assert probability(bench, exponent, budget, d_least)
    limit = Fraction(3, 8) if budget == "paper" else Fraction(7, 16)
    for exponent in (limit, limit + Fraction(1, 100), Fraction(1, 2), Fraction(3)):
        assert not probability(bench, str(exponent), budget, "1" + "0" * 200)
    assert probability(bench, str(limit - Fraction(1, 100)), budget, "1" + "0" * 200)
    assert not probability(bench, str(limit - Fraction(1, 100)), budget, 112)
    if budget == "paper":
        # Proved for all large m at once and for the smallest, but not for those between.
        assert probability(bench, "0.345", budget, 8400) and not probability(bench, "0.345", budget, 112)
    between = "0.36" if budget == "paper" else "0.42"
    assert not probability(bench, between, budget, 112) and probability(bench, between, budget, "1" + "0" * 40)
    for exponent in (0, "-1/3", True, "x"):
        assert not probability(bench, exponent, budget, 112)
    for bad in ({"d_least": 0}, {"d_least": "1/2"}, {"budget": "free"}, {"more": 1}):
        inputs = {"exponent": "1/12", "budget": budget, "d_least": 112} | bad
        assert not bench.accepts("failure-probability", inputs, RATIO)
    for bad in ({"failure_numerator": "1"}, {"failure_denominator": "rho^2"}, {"failure_numerator": 1}, {"x": 1}):
        inputs = {"exponent": "1/12", "budget": budget, "d_least": 112}
        assert not bench.accepts("failure-probability", inputs, RATIO | bad)


def union_bound(length, rho, d, a, b, budget, reserve=0):
    tokens = a + b + 2 if budget == "paper" else 3
    scale = (1 - reserve) * rho**4 / (4 * tokens * d)
    m = mpmath.mpf(d) / 4
    volume = mpmath.pi ** (m / 2) / mpmath.gamma(m / 2 + 1)
    return (length + abs(b - a - 1)) * volume * (mpmath.log(length + 1) / (8 * scale)) ** (m / 2)


@pytest.mark.parametrize("budget", ["paper", "three-tokens"])
def test_accepted_exponents_hold_at_many_places(bench, budget):
    exponent = mpmath.mpf(1) / 3
    assert probability(bench, "1/3", budget, 112)
    with mpmath.workdps(60):
        for m in (28, 29, 31, 36, 44, 60, 100, 300, 2000):
            for a, b in ((1, m - 26), (m - 27, 2), (1, 2)):
                for factor in ("1.0000001", "1.5", "100", "1e20"):
                    d, rho = 4 * m, mpmath.mpf(factor) * (4 * m) ** 2
                    length = mpmath.floor(rho ** (exponent * d))
                    assert union_bound(length, rho, d, a, b, budget, mpmath.mpf(2) ** -30) <= d / rho


def test_failure_probability_at_one_place(bench):
    with mpmath.workdps(60):
        for rho, d, a, b, budget in (
            (20000, 120, 2, 3, "paper"),
            ("501/2", 40, 9, 2, "three-tokens"),
            (9, 8, 1, 40, "paper"),
        ):
            for length in (1, 7, 10**30):
                inputs = {"rho": rho, "d": d, "a": a, "b": b, "budget": budget}
                value = union_bound(
                    mpmath.mpf(length), mpmath.mpf(250.5) if rho == "501/2" else mpmath.mpf(rho), d, a, b, budget
                )
                man, exp = mpmath.frexp(value)
                above = Fraction(int(man * 2**100) + 2**80) * Fraction(2) ** (int(exp) - 100)
                below = Fraction(int(man * 2**100) - 2**80) * Fraction(2) ** (int(exp) - 100)
                for most, fine in ((above, True), (below, False), (0, False), (-1, False)):
                    claim = {"length": str(length), "failure_at_most": str(most)}
                    assert bench.accepts("failure-probability-at", inputs, claim) == fine
    good = {"rho": 20000, "d": 120, "a": 2, "b": 3, "budget": "paper"}
    for bad in ({"rho": 0}, {"rho": -20000}, {"d": 0}, {"d": 122}, {"a": 0}, {"b": 1}, {"budget": "x"}, {"d": 10**13}):
        assert not bench.accepts("failure-probability-at", good | bad, {"length": 1, "failure_at_most": 1})


def test_cosine_lemma(bench):
    def accepts(delta, constant):
        return bench.accepts("cosine-lemma", {"delta_below": delta}, {"constant": constant})

    with mpmath.workdps(50):
        for delta in ("0.1", "1/1000", "3/2", 2, "1/" + "9" * 30):
            x = mpmath.mpf(Fraction(delta).numerator) / Fraction(delta).denominator
            least = Fraction(str(mpmath.nstr(2 * mpmath.asin(mpmath.sqrt(x / 2)) / (mpmath.pi * mpmath.sqrt(x)), 40)))
            assert accepts(delta, str(least + Fraction(1, 10**30)))
            assert not accepts(delta, str(least - Fraction(1, 10**30)))
    assert accepts(1, "1/2") and not accepts(1, "0.4999999999999999999999999999999999999999")
    for delta in (0, "-0.1", "2.0000001", 3, "1e-2"):
        assert not accepts(delta, 1000)


def test_cosine_step_counterexample(bench):
    for delta in ("1/20", "0.0999999999", "1/" + "9" * 3000, "1/" + "9" * 19_000):
        verdict = bench.check("cosine-step-counterexample", {}, {"delta": delta})
        assert verdict.accepted and "theta > sqrt(2 delta)" in verdict.statement
    for delta in ("0.1", 0, "-0.01", 1, "1/" + "9" * 20_000, True):
        assert not bench.accepts("cosine-step-counterexample", {}, {"delta": delta})


def test_dirichlet_ceiling(bench):
    def accepts(inputs, q, fails_at):
        return bench.accepts("dirichlet-ceiling", inputs, {"fails_at": str(fails_at)}, {"q": str(q)})

    for inputs, amplitude in (
        ({"d": 120, "rho": "20000"}, Fraction(20000) ** 4 / 8),
        ({"d": 8, "column_amplitude": "7/3"}, Fraction(7, 3)),
        ({"d": 400, "rho": "1/9"}, Fraction(1, 9) ** 4 / 8),
        ({"d": 4, "column_amplitude": 0}, Fraction(0)),
    ):
        with mpmath.workdps(60):
            exact = mpmath.sqrt(2 * mpmath.pi**2 * amplitude.numerator / amplitude.denominator / mpmath.log(2))
            q = max(1, int(mpmath.ceil(exact)))
        fails_at = 2 * q ** (inputs["d"] // 4) + 1
        assert accepts(inputs, q, fails_at) and accepts(inputs, q, fails_at + 10)
        assert accepts(inputs, q + 1, 2 * (q + 1) ** (inputs["d"] // 4) + 1)
        assert not accepts(inputs, q, fails_at - 1) and not accepts(inputs, q - 1, fails_at)
    for inputs in (
        {"d": 4},
        {"rho": 1},
        {"d": 4, "rho": 1, "column_amplitude": 1},
        {"d": 6, "rho": 1},
        {"d": 4, "rho": -1},
        [],
    ):
        assert not accepts(inputs, 10**9, 10**18)
    assert not accepts({"d": 10**11, "rho": 1}, 2, 10**100)


@pytest.mark.parametrize("seed", range(4))
def test_the_ceiling_holds_for_models(bench, seed):
    draw = random.Random(seed)
    column = [f"{draw.randrange(10**9)}/{10**9 + 7}" for _ in range(1 + seed % 2)]
    model = ideal(2, 3, ["1/3"], column, 4.0)
    amplitude = Fraction(4 * len(column)) + Fraction(1, 1000)
    q = math.ceil(math.sqrt(2 * math.pi**2 * amplitude / math.log(2)))
    fails_at = 2 * q ** len(column) + 1
    inputs = {"d": 4 * len(column), "column_amplitude": str(amplitude)}
    assert bench.accepts("dirichlet-ceiling", inputs, {"fails_at": fails_at}, {"q": q})
    assert bench.scan(bench.weights(model), 0, fails_at)


# --- edits, and the program ------------------------------------------------------------------------------------


def good_certificates(bench):
    quarter = bench.weights(ideal(1, 3, ["1/3"], ["1/4"], 50.0), "quarter.safetensors")
    lattice = bench.weights(ideal(2, 4, ["1/3"], ALPHAS, 1e9), "lattice.safetensors")
    place = {"rho": "20000", "d": 120, "a": 2, "b": 3, "budget": "paper"}
    universal = {"exponent": "1/12", "budget": "paper", "d_least": 112}
    cases = [
        ("weights-norm", quarter, {}, {"norm_at_most": "80"}),
        ("grid-scan", quarter, {}, {"copies_up_to": 4, "fails_at": 5}),
        ("grid-counterexample", quarter, {}, {"length": 5, "background": 0, "flips": [1], "step": 1}),
        ("grid-separation", lattice, evidence(reduced(generators())), {"length": "1000"}),
        ("failure-probability", universal, {}, RATIO),
        ("failure-probability-at", place, {}, {"length": "1000", "failure_at_most": "1/100"}),
        ("cosine-lemma", {"delta_below": "0.1"}, {}, {"constant": "1"}),
        ("cosine-step-counterexample", {}, {}, {"delta": "1/20"}),
        ("dirichlet-ceiling", {"d": 8, "rho": "3"}, {"q": 20}, {"fails_at": 801}),
    ]
    return [{"schema": 1, "kind": k, "inputs": i, "evidence": e, "claim": c} for k, i, e, c in cases]


def paths(value, here=()):
    yield here
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from paths(child, (*here, key))


def replaced(document, path, value):
    copy = json.loads(json.dumps(document))
    if not path:
        return value
    parent = functools.reduce(lambda part, key: part[key], path[:-1], copy)
    parent[path[-1]] = value
    return copy


GARBAGE = [None, True, [], {}, "", "x", "-1", "1/0", "1e999999999", [[[]]], {"a": []}, "\ud800", "0" * 30_000]


@pytest.mark.slow
@pytest.mark.parametrize("index", range(9))
def test_garbage_anywhere_is_rejected_without_an_accident(bench, index):
    document = good_certificates(bench)[index]
    assert bench.check_text(json.dumps(document)).accepted
    for path in paths(document):
        for garbage in GARBAGE:
            if garbage == functools.reduce(lambda part, key: part[key], path, document):
                continue
            verdict = bench.check_text(json.dumps(replaced(document, path, garbage)))
            # [] flips nothing, which leaves a string that is as wrong; its statement says so.
            meant = path == ("claim", "flips") and garbage == []
            fails_open = path == ("claim", "fails_at") and garbage is None and document["kind"] == "grid-scan"
            assert verdict.accepted in ((True, False) if meant or fails_open else (False,)), (path, garbage)
            assert verdict.accepted or ("broke off" not in verdict.reason and verdict.reason.isascii())


def run(*arguments, directory):
    command = [sys.executable, "-I", "-O", "-m", "proofs_check.verify", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=directory, check=False)


@pytest.mark.slow
def test_the_program(bench):
    names = []
    for number, document in enumerate(good_certificates(bench)):
        names.append(f"{number}.json")
        (bench.directory / names[-1]).write_text(json.dumps(document))
    done = run(*names, directory=bench.directory)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == len(names) and all(f"{n}: accepted: " in line for n, line in zip(names, lines, strict=True))

    (bench.directory / "wrong.json").write_text(json.dumps(LEMMA | {"claim": {"constant": "0.1"}}))
    done = run("--json", names[0], "wrong.json", directory=bench.directory)
    assert (done.returncode, done.stderr) == (1, "")
    first, second = json.loads(done.stdout)["files"]
    assert first["accepted"] and first["reason"] is None and first["file"] == names[0] and first["statement"]
    assert second == {
        "file": "wrong.json",
        "accepted": False,
        "statement": None,
        "reason": "claim.constant is too small",
    }

    (bench.directory / "bad\nname").write_text("{")
    done = run("bad\nname", "wrong.json", directory=bench.directory)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "not JSON" in done.stderr
    assert done.stdout == "wrong.json: rejected: claim.constant is too small\n"


@pytest.mark.slow
def test_bad_usage(tmp_path):
    for arguments in ((), ("--json",), ("--unknown", "x"), ("none.json",)):
        done = run(*arguments, directory=tmp_path)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and done.stdout == ""
    done = run("--json", "none.json", directory=tmp_path)
    assert done.returncode == 2 and not json.loads(done.stdout)["files"][0]["accepted"]


def test_it_loads_nothing_but_flint():
    script = (
        "import sys, proofs_check.verify, proofs_check.verify.__main__; "
        "print(sorted({name.split('.')[0] for name in sys.modules} & "
        "{'torch', 'numpy', 'scipy', 'sympy', 'mpmath', 'theory', 'engine', 'constructions'}), "
        "sorted(name for name in sys.modules if name.startswith('proofs_check') and '.verify' not in name))"
    )
    done = subprocess.run([sys.executable, "-I", "-O", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[] ['proofs_check']\n", "")
