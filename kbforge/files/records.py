"""Records read strictly: JSON values without repeated keys."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import orjson

from kbforge.errors import BadRecord, quoted

_ESCAPED = b"\\u003"  # how an escaped colon begins; what else begins so only costs a closer look


def json_value(content: bytes, where: str) -> Any:
    """One JSON value, whose objects have distinct keys.

    Args:
        content: of a line or a file.
        where: for errors.

    Raises:
        orjson.JSONDecodeError: not UTF-8, or not JSON.
        BadRecord: a key that is there twice; objects and arrays too deep in each other.

    """
    value = orjson.loads(content)
    # the parser keeps the last of two equal keys. Each key has a colon; if there are no more colons
    # than keys in the outer two levels, none went missing
    colons = content.count(b":")
    if type(value) is dict:
        keys = len(value)
        for part in value.values():
            if type(part) is dict:
                keys += len(part)
        if colons == keys:
            return value
    # texts have colons, too: writing what was kept shows whether one went missing. One that was
    # escaped in a text comes back plain, and hides nothing if it is looked for
    try:
        kept = orjson.dumps(value).count(b":")
    except orjson.JSONEncodeError:
        expected = "objects and arrays at most 254 deep in each other"
        raise BadRecord(where, expected, "deeper ones") from None
    if kept != colons or _ESCAPED in content:
        _require_distinct_keys(content, where)
    return value


def _require_distinct_keys(content: bytes, where: str) -> None:
    def distinct(pairs: list[tuple[str, Any]]) -> None:
        for key, count in Counter(key for key, _ in pairs).items():
            if count > 1:
                raise BadRecord(where, "distinct keys", f'"{quoted(key)}" {count} times')

    json.loads(content, object_pairs_hook=distinct)
