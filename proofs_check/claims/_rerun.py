"""A report made again: its parameters, read back from what it says of its own making."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from proofs_check.claims._check import CheckParameters
from theory import InputError
from theory.numbers import parse_rational

#: The parameters that are plain JSON values, with their types.
_PLAIN = {"a": int, "b": int, "d": int, "draws": int, "seed": int, "bits": int, "beyond_theorem": bool, "kernel": bool}

_FILE = "a report of `copycert check`: its check.json, or what it printed with --json"


def reported_parameters(report: Path) -> CheckParameters:
    """The parameters of which a report is.

    Args:
        report: the file; of its contents only the provenance is read.

    Raises:
        InputError: it cannot be read, is no report of a check, or its parameters are out of range.
    """
    parameters = _parameters(report)
    if set(parameters) - {"only"} != {"rho", *_PLAIN}:
        raise InputError("report", str(report), f"{_FILE} (its parameters are {', '.join(parameters) or 'none'})")
    for name, kind in _PLAIN.items():
        if type(parameters[name]) is not kind:
            raise InputError("report", str(report), f"{_FILE} (there {name} is {parameters[name]!r})")
    rhos = tuple(parse_rational(rho, "rho") for rho in _texts(report, parameters, "rho"))
    only = _texts(report, parameters, "only") if parameters.get("only") is not None else ()
    return CheckParameters(rhos, only=only, **{name: parameters[name] for name in _PLAIN})


def _parameters(report: Path) -> dict[str, Any]:
    try:
        made = json.loads(report.read_bytes())["provenance"]
        command, parameters = made["command"], dict(made["parameters"])
    except OSError as error:
        raise InputError("report", str(report), f"{_FILE} ({error.strerror})") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise InputError("report", str(report), f"{_FILE} (it does not say what it is of)") from error
    if command != "check":
        raise InputError("report", str(report), f"{_FILE} (it is of `copycert {command}`)")
    return parameters


def _texts(report: Path, parameters: dict[str, Any], name: str) -> tuple[str, ...]:
    texts = parameters[name]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InputError("report", str(report), f"{_FILE} (there {name} is {texts!r})")
    return tuple(texts)
