"""Finds codes, units and figures in texts: model numbers, sizes, versions.

| kind | of "Denon TU-1500RD tuner, 40 stations, 17 in" |
|---|---|
| codes | tu1500rd |
| units | in=17 |
| measures | in |
| figures | 40, 17 |

A code is a run of letters and digits, or several joined by `-`, `/` or `.`, of at least four
characters, with a digit and a letter, or of at least five digits. Units of one measure have one
spelling; what they measure is not converted.
"""

from __future__ import annotations

import re
from functools import lru_cache

CODE_BAGS = ("codes", "units", "measures", "figures")
LONGEST_READ = 600
"""Characters of a record that are read."""
_MOST_TOKENS = 24
_LEAST_CODE, _LEAST_NUMBER = 4, 5

_MEASURES = {
    **dict.fromkeys(("gb", "go", "gigabyte", "gigabytes"), "gb"),
    **dict.fromkeys(("tb", "to", "terabyte", "terabytes"), "tb"),
    **dict.fromkeys(("mb", "mo", "megabyte", "megabytes"), "mb"),
    **dict.fromkeys(("in", "inch", "inches", '"', "''"), "in"),
    **dict.fromkeys(("ft", "feet", "foot"), "ft"),
    **dict.fromkeys(("oz", "ounce", "ounces"), "oz"),
    **dict.fromkeys(("lb", "lbs", "pound", "pounds"), "lb"),
    **dict.fromkeys(("w", "watt", "watts"), "w"),
    **dict.fromkeys(("v", "volt", "volts"), "v"),
    **dict.fromkeys(("mp", "megapixel", "megapixels"), "mp"),
    **dict.fromkeys(("pk", "pack", "pc", "pcs", "piece", "pieces", "count", "ct"), "pk"),
    **dict.fromkeys(("user", "users"), "user"),
    **{unit: unit for unit in ("kb", "ghz", "mhz", "khz", "hz", "dpi", "rpm", "mah", "btu", "ah")},
    **{unit: unit for unit in ("cm", "mm", "m", "km", "kg", "g", "mg", "ml", "cl", "l", "x")},
}
_UNIT = re.compile(
    r"(?<![\w.])(\d+(?:[.,]\d+)?)[ -]?({})(?![a-z0-9])".format(
        "|".join(re.escape(unit) for unit in sorted(_MEASURES, key=lambda u: (-len(u), u)))
    )
)
_CODE = re.compile(r"[a-z0-9]+(?:[-/.][a-z0-9]+)*")
_JOINS = re.compile(r"[-/.]")
_FIGURE = re.compile(r"(?<![a-z0-9])\d+(?:\.\d+)?(?![a-z0-9])")
_NEITHER = re.compile(r"[^a-z0-9]+")


@lru_cache(maxsize=1 << 14)
def codes_of(text: str) -> dict[str, list[str]]:
    """By kind of `CODE_BAGS`, the different tokens of a folded text, a bounded number."""
    text = text[:LONGEST_READ]
    measured = [(_MEASURES[unit], _plain(number)) for number, unit in _UNIT.findall(text)]
    codes = [
        code
        for run in _CODE.findall(text)
        if _is_code(code := run if run.isalnum() else _JOINS.sub("", run))
        and not _UNIT.fullmatch(run)
    ]
    found = {
        "codes": codes,
        "units": [f"{unit}={number}" for unit, number in measured],
        "measures": [unit for unit, _ in measured],
        "figures": [_plain(number) for number in _FIGURE.findall(text)],
    }
    return {kind: list(dict.fromkeys(tokens))[:_MOST_TOKENS] for kind, tokens in found.items()}


def spelt(text: str) -> str:
    """The letters and digits of a folded text, in which a code stands however it is broken up."""
    return _NEITHER.sub("", text[:LONGEST_READ])


def _plain(number: str) -> str:
    """A number without a decimal comma and needless zeros."""
    number = number.replace(",", ".")
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return number.lstrip("0") or "0"


def _is_code(run: str) -> bool:
    if run.isdigit():
        return len(run) >= _LEAST_NUMBER
    return not run.isalpha() and len(run) >= _LEAST_CODE
