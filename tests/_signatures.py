"""Shapes in the signatures are enforced while tests run, once for each kind of arguments.

jaxtyping and beartype go over every call of every function, which makes a report of ten seconds one of thirty. So they
are given the modules whose signatures name shapes; plain types are mypy's. And what they say depends on the types of
the arguments and on the shapes and dtypes of arrays: a call whose arguments are as those of an earlier, accepted call
goes straight to the function.
"""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
from jaxtyping import install_import_hook

ROOT = Path(__file__).parents[1]

#: The folders whose signatures are enforced.
FOLDERS = ("theory", "engine", "constructions", "proofs_check/certify")

#: Kinds of arguments that a function keeps in mind; a function that sees more checks the others each time.
MOST_KINDS = 2000

_jaxtyped = jaxtyping.jaxtyped


def enforce() -> None:
    """From now on in everything that is imported. Call it before torch is imported."""
    jaxtyping.jaxtyped = _sparing  # what the hook writes above each function and class
    install_import_hook(modules_with_shapes(), "beartype.beartype").__enter__()


def modules_with_shapes() -> list[str]:
    """The modules that import jaxtyping."""
    files = (file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py")))
    inside = (file.relative_to(ROOT) for file in files if "jaxtyping" in file.read_text(encoding="utf-8"))
    return [".".join(file.with_suffix("").parts) for file in inside]


def kind_of(value: Any) -> Any:
    """What a check looks at: the type, of an array shape and dtype, of a sequence its length and first entry."""
    cls = type(value)
    if cls is np.ndarray or cls.__name__ == "Tensor":
        return cls, value.dtype, tuple(value.shape)
    if cls is tuple or cls is list:
        return (cls, len(value), kind_of(value[0])) if value else cls
    return cls


def _sparing(decorated: Any = None, *, typechecker: Any) -> Any:
    if decorated is None:
        return functools.partial(_sparing, typechecker=typechecker)
    if not inspect.isclass(decorated):
        return _once(decorated, _jaxtyped(decorated, typechecker=typechecker))
    plain = decorated.__dict__.get("__init__")
    checked = _jaxtyped(decorated, typechecker=typechecker)
    if plain is not None and checked.__dict__.get("__init__") is not plain:
        checked.__init__ = _once(plain, checked.__init__)
    return checked


def _once(plain: Callable[..., Any], checked: Callable[..., Any]) -> Callable[..., Any]:
    """`checked` for kinds of arguments that it has not accepted yet, else `plain`."""
    accepted: set[Any] = set()

    @functools.wraps(plain)
    def call(*arguments: Any, **named: Any) -> Any:
        kind = (*map(kind_of, arguments), *((name, kind_of(value)) for name, value in named.items()))
        if kind in accepted:
            return plain(*arguments, **named)
        result = checked(*arguments, **named)
        if len(accepted) < MOST_KINDS:
            accepted.add(kind)
        return result

    return call
