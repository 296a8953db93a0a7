"""The calibration file: what `kbforge calibrate` found, as a small TOML that `cluster` reads.

    format = 1
    alpha = 12.5                   # concentration of the Dirichlet process
    log_alpha = 2.5257286443082556
    at_edge = ""                   # "low" or "high": the search range was too narrow
    kbforge = "0.1.0"

    [objective]
    name = "pseudo-likelihood"     # the calibrator
    value = -1234.5

    [likelihood]
    name = "bigram"                # an alpha is good for this likelihood only
    [likelihood.options]
    scale = "25"

    [data]
    fragments = 500
    sha256 = "..."                 # of the fragments, as `fingerprint` makes it

Reading is strict: a field that is missing, unknown, of the wrong type or contradictory is an error.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

import kbforge
from kbforge.contracts.fragment import Fragment
from kbforge.errors import KBForgeError, quoted
from kbforge.io import called, open_input, open_output

FORMAT = 1
_MAX_BYTES = 1 << 20
_LOG_TOLERANCE = 1e-6

Option = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Calibration:
    """A calibrated concentration and where it comes from.

    Attributes:
        alpha: concentration, > 0.
        objective: name of the calibrator.
        value: its objective at alpha.
        at_edge: "low", "high" or "".
        likelihood: name or path of the likelihood it was calibrated for.
        options: that likelihood's options.
        fragments: how many fragments it was calibrated on.
        sha256: their fingerprint.
        kbforge: version of the program.

    """

    alpha: float
    objective: str
    value: float
    at_edge: str
    likelihood: str
    fragments: int
    sha256: str
    options: Mapping[str, Option] = field(default_factory=dict)
    kbforge: str = kbforge.__version__

    @property
    def log_alpha(self) -> float:
        """log alpha, in nats: the offset of the likelihood at alpha 1."""
        return math.log(self.alpha)


def fingerprint(fragments: Iterable[Fragment]) -> str:
    """SHA-256 of the fragments as JSON lines with sorted keys: the same for any file format."""
    digest = hashlib.sha256()
    for fragment in fragments:
        digest.update(orjson.dumps(fragment.to_json(), option=orjson.OPT_SORT_KEYS) + b"\n")
    return digest.hexdigest()


def write_calibration(calibration: Calibration, path: str) -> None:
    """Write atomically; "-" is standard output.

    Raises:
        KBForgeError: the file cannot be written.

    """
    with open_output(path) as out:
        out.write(to_toml(calibration))


def to_toml(c: Calibration) -> bytes:
    """The content of a calibration file."""
    lines = [
        "# Written by kbforge calibrate; read by kbforge cluster --calibration.",
        f"format = {FORMAT}",
        f"alpha = {c.alpha!r}",
        f"log_alpha = {c.log_alpha!r}",
        f"at_edge = {_toml(c.at_edge)}",
        f"kbforge = {_toml(c.kbforge)}",
        "",
        "[objective]",
        f"name = {_toml(c.objective)}",
        f"value = {c.value!r}",
        "",
        "[likelihood]",
        f"name = {_toml(c.likelihood)}",
        "[likelihood.options]",
        *(f"{_toml(key)} = {_toml(value)}" for key, value in sorted(c.options.items())),
        "",
        "[data]",
        f"fragments = {c.fragments}",
        f"sha256 = {_toml(c.sha256)}",
    ]
    return "\n".join(lines).encode() + b"\n"


def read_calibration(path: str) -> Calibration:
    """Read strictly; "-" is standard input.

    Raises:
        KBForgeError: unreadable, not TOML, or not a calibration; with file and field.

    """
    with open_input(path) as stream:
        data = stream.read(_MAX_BYTES + 1)
    name = quoted(called(path), 400)
    if len(data) > _MAX_BYTES:
        raise KBForgeError(
            f"{name}: expected a calibration file, got more than {_MAX_BYTES:,} bytes"
        )
    try:
        table = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise KBForgeError(f"{name}: expected TOML, got {quoted(str(error), 200)}") from None
    return _parse(_Reader(name, table))


def _parse(top: _Reader) -> Calibration:
    top.only(
        "format", "alpha", "log_alpha", "at_edge", "kbforge", "objective", "likelihood", "data"
    )
    version = top.get("format", int)
    if version != FORMAT:
        raise top.wrong("format", f"{FORMAT}", str(version))
    alpha, log_alpha = top.number("alpha"), top.number("log_alpha")
    if not alpha > 0:
        raise top.wrong("alpha", "a number above 0", repr(alpha))
    if not math.isclose(math.log(alpha), log_alpha, abs_tol=_LOG_TOLERANCE):
        raise top.wrong(
            "log_alpha", f"the natural logarithm of alpha ({math.log(alpha):.6f})", repr(log_alpha)
        )
    at_edge = top.get("at_edge", str)
    if at_edge not in ("", "low", "high"):
        raise top.wrong("at_edge", '"low", "high" or ""', quoted(at_edge))
    objective = top.table("objective").only("name", "value")
    likelihood = top.table("likelihood").only("name", "options")
    data = top.table("data").only("fragments", "sha256")
    return Calibration(
        alpha=alpha,
        objective=objective.get("name", str),
        value=objective.number("value"),
        at_edge=at_edge,
        likelihood=likelihood.get("name", str),
        options=likelihood.table("options").options(),
        fragments=data.get("fragments", int),
        sha256=data.get("sha256", str),
        kbforge=top.get("kbforge", str),
    )


class _Reader:
    """One TOML table; every failure names the file and the field."""

    def __init__(self, where: str, table: Mapping[str, Any], prefix: str = "") -> None:
        self._where, self._table, self._prefix = where, table, prefix

    def wrong(self, key: str, expected: str, got: str) -> KBForgeError:
        return KBForgeError(
            f"{self._where}: {quoted(self._prefix + key)}: expected {expected}, got {got} "
            f"(kbforge calibrate writes this file)"
        )

    def only(self, *keys: str) -> _Reader:
        for key in self._table:
            if key not in keys:
                raise self.wrong(key, f"one of {', '.join(keys)}", "an unknown field")
        return self

    def get(self, key: str, kind: type) -> Any:
        if key not in self._table:
            raise self.wrong(key, _KIND[kind], "nothing")
        value = self._table[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, _KIND[kind], quoted(value))
        return value

    def number(self, key: str) -> float:
        value = self._table.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, "a number", "nothing" if value is None else quoted(value))
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.wrong(key, "a finite number", quoted(str(value)))
        return number

    def table(self, key: str) -> _Reader:
        return _Reader(self._where, self.get(key, dict), f"{self._prefix}{key}.")

    def options(self) -> dict[str, Option]:
        for key, value in self._table.items():
            if not isinstance(value, Option):
                raise self.wrong(key, "a string, number or boolean", quoted(value))
        return dict(self._table)


_KIND = {str: "a string", int: "a whole number", dict: "a table"}


def _toml(value: Option) -> str:
    """A TOML value; its basic strings are JSON's, except that DEL must be escaped."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value) if isinstance(value, bool | int) else repr(value)
