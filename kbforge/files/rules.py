"""Rules in a TOML file: attributes whose values keep fragments apart, or make them one entity.

never = ["vat id"]
always = ["passport"]
"""

from __future__ import annotations

from kbforge.contracts.clusterer import RuleSet
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.io import called, read_small
from kbforge.files.records import Record, parse_toml

_MAX_BYTES = 1 << 20


def read_rules(path: str | None) -> RuleSet:
    """The rules in a file, or none without a file; a UsageError for another file."""
    if path is None:
        return RuleSet()
    name = quoted(called(path), 400)

    def wrong(key: str, expected: str, got: str) -> KBForgeError:
        return UsageError(f"{name}: {quoted(key)}: expected {expected}, got {got}")

    content = read_small(path, "rules", _MAX_BYTES, UsageError)
    top = Record(parse_toml(content, name, UsageError), wrong).only("never", "always")
    kinds = ("never", "always")
    return RuleSet(*(tuple(dict.fromkeys(top.texts(k))) if k in top else () for k in kinds))
