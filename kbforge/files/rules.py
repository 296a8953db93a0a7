"""Rules in a TOML file: attributes whose values keep fragments apart, or make them one entity.

never = ["vat id"]
always = ["passport"]
"""

from __future__ import annotations

from kbforge.contracts.clusterer import RuleSet
from kbforge.errors import UsageError, quoted
from kbforge.files.io import called, read_small
from kbforge.files.records import toml_record

_MAX_BYTES = 1 << 20


def read_rules(path: str | None) -> RuleSet:
    """The rules in a file, or none without a file; a UsageError for another file."""
    if path is None:
        return RuleSet()
    content, kinds = read_small(path, "rules", _MAX_BYTES, UsageError), ("never", "always")
    top = toml_record(content, quoted(called(path), 400), UsageError).only(*kinds)
    return RuleSet(*(tuple(dict.fromkeys(top.texts(k))) if k in top else () for k in kinds))
