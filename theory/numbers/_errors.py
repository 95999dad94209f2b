"""The one error that bad input raises, and the small checks that raise it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction


class InputError(ValueError):
    """Bad input, told in one line: the argument, the value given, what is allowed.

    Attributes:
        argument: name of the argument as the caller knows it.
        value: the value given, shortened when long.
        allowed: what would have been accepted, to follow "must be".
    """

    def __init__(self, argument: str, value: object, allowed: str) -> None:
        self.argument = argument
        text = " ".join(_spelled(value).split())
        self.value = text if len(text) <= 60 else text[:57] + "..."
        self.allowed = allowed
        super().__init__(f"{argument} = {self.value}: must be {allowed}")


def _spelled(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 10_000:
        return f"an integer of {value.bit_length()} bits"
    return value if isinstance(value, str) else repr(value)


#: A decimal exponent beyond this is refused, since its exact value would fill the memory.
LARGEST_DECIMAL_EXPONENT = 5000

#: Largest RoPE dimension; matrices of d^2 weights are built.
LARGEST_DIMENSION = 16_384

#: Most tokens before or after the string; weights and positions are made for each of them.
LARGEST_AROUND = 100_000

#: Longest text of one rational number; a 1024-bit fraction takes 620 characters.
LONGEST_RATIONAL = 20_000


def parse_rational(text: str | int | Fraction, argument: str) -> Fraction:
    """The rational number that a decimal such as `0.05` or `1e-3`, an integer or `p/q` spells, exactly.

    Raises:
        InputError: not a finite rational, a zero denominator, or an exponent beyond 5000.
    """
    allowed = "a finite decimal or p/q"
    if isinstance(text, Fraction):
        return text
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise InputError(argument, text, allowed)
    spelled = str(text).strip()
    if len(spelled) > LONGEST_RATIONAL:
        raise InputError(argument, spelled, f"{allowed} of at most {LONGEST_RATIONAL} characters")
    _, _, exponent = spelled.lower().partition("e")
    if exponent.lstrip("+-").isdecimal() and int(exponent.lstrip("+-")[:9]) > LARGEST_DECIMAL_EXPONENT:
        raise InputError(argument, spelled, f"{allowed} with an exponent of at most {LARGEST_DECIMAL_EXPONENT}")
    try:
        return Fraction(spelled)
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(argument, spelled, allowed) from error


def require_one_of(argument: str, value: str, allowed: Iterable[str]) -> str:
    """`value`, or InputError if it is none of the words allowed."""
    if value not in (words := tuple(allowed)):
        raise InputError(argument, value, "one of " + ", ".join(words))
    return value


def require_at_least(argument: str, value: int, least: int) -> int:
    """`value`, or InputError if it is not an integer >= `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(argument, value, f"an integer >= {least}")
    return value


def require_around(argument: str, value: int, least: int = 1) -> int:
    """`value`, or InputError if it is not a number of tokens around the string, `least` to LARGEST_AROUND."""
    require_at_least(argument, value, least)
    if value > LARGEST_AROUND:
        raise InputError(argument, value, f"at most {LARGEST_AROUND} tokens")
    return value


def require_pair_dimension(d: int, argument: str = "d") -> int:
    """`d`, or InputError if it is not a positive multiple of 4 (d/4 row and d/4 column frequencies)."""
    if isinstance(d, bool) or not isinstance(d, int) or d < 4 or d % 4:
        raise InputError(argument, d, "a positive multiple of 4 (d/4 row and d/4 column frequencies)")
    if d > LARGEST_DIMENSION:
        raise InputError(argument, d, f"at most {LARGEST_DIMENSION}")
    return d
