"""The calibration file: what `kbforge calibrate` found, as a small TOML that `cluster` reads.

    format = 1
    alpha = 12.5                   # concentration of the Dirichlet process
    log_alpha = 2.5257286443082556
    at_edge = ""                   # "low" or "high": the search range was too narrow
    kbforge = "0.2.0"

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

    [confidence]                   # optional: the map that `kbforge calibrate --confidence` adds
    ...

Reading is strict: a field that is missing, unknown, of the wrong type or contradictory is an error.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import orjson

from kbforge.contracts.fragment import Fragment
from kbforge.errors import quoted
from kbforge.files.io import open_output
from kbforge.files.records import Option, Record
from kbforge.files.toml import read_table
from kbforge.files.toml import toml_value as _toml
from kbforge.fit.confidence import ConfidenceMap, lines_of, parse_confidence
from kbforge.version import __version__

CALIBRATION_FILE = "calibration.toml"
"""The calibration of a model, in its bundle."""

FORMAT = 1
_LOG_TOLERANCE = 1e-6


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
        confidence: the map for what is reported with this alpha, None if there is none.

    """

    alpha: float
    objective: str
    value: float
    at_edge: str
    likelihood: str
    fragments: int
    sha256: str
    options: Mapping[str, Option] = field(default_factory=dict)
    kbforge: str = __version__
    confidence: ConfidenceMap | None = None

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
    if c.confidence is not None:
        lines += ["", "[confidence]", *lines_of(c.confidence, "confidence.")]
    return "\n".join(lines).encode() + b"\n"


def read_calibration(path: str) -> Calibration:
    """Read strictly; "-" is standard input.

    Raises:
        KBForgeError: unreadable, not TOML, or not a calibration; with file and field.

    """
    return _parse(read_table(path, "calibration", "kbforge calibrate"))


def _parse(top: Record) -> Calibration:
    top.only(
        *("format", "alpha", "log_alpha", "at_edge", "kbforge", "objective", "likelihood", "data"),
        "confidence",
    )
    top.get("format", int)
    top.version(FORMAT)
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
        confidence=parse_confidence(top.table("confidence")) if "confidence" in top else None,
    )
