"""Fragment, one observation of an entity; and Source, which reads fragments from files.

A fragment is one JSON object per line:

    {"id": str, "properties": {attribute: [str, ...]}, "vector": [float, ...]?,
     "label": str?, "source": str?, "metadata": object?}

Laws, checked by `Fragment.from_json`:

1. `id` is a non-empty string.
2. A fragment has properties or a vector; each property is a non-empty list of non-empty strings.
3. Every string is valid Unicode (no lone surrogates) without NUL; every number is finite.
4. Sizes are bounded by the constants below, so that a hostile line cannot exhaust memory.

`source` names the table or file that a fragment was read from. The metadata hold its position
there, under `row`.

The REBEL/KeBAB shape (`entity_id` for the label, ids in `metadata`) is read too.

Sources have one signature:

    read(inputs, on_bad) -> iterator of Fragment

Laws, tested for every member by `kbforge.testing.SourceContract`:

1. *Streaming*: memory does not grow with the input.
2. *Deterministic*: the same files give the same fragments in the same order.
3. *Nothing silently lost*: every record becomes fragments, is filtered by a documented rule, or is
   handed to `on_bad`, which raises (stop) or returns (set aside; the source goes on).
4. Every fragment satisfies the laws of `Fragment`, which its checked constructor enforces.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, TypeAlias, TypeVar
from unicodedata import normalize

from kbforge.errors import BadRecord, quoted

ROW = "row"
"""The key of metadata for a fragment's position in its source: a row, or a line of text."""
AUTHORITY = "authority"
"""The key of metadata that names the known entity that a fragment represents."""
TIMES = "times"
"""The key of metadata for the times of single values (`kbforge.kb.times`)."""
ASSERTED_OF = "asserted_of"
"""The key of metadata that names the fragment about whose entity a person asserts the values; the
source is the person (`kbforge.kb.assertions`)."""

MAX_ID_CHARACTERS = 4_096
MAX_VALUE_CHARACTERS = 65_536
MAX_ATTRIBUTES = 1_024
MAX_VALUES = 10_000
MAX_DIMENSIONS = 65_536
MAX_DEPTH = 253

_MOST_SHARED = 1 << 17
_LONGEST_SHARED = 128  # characters; longer values are seldom equal, and many are large

_SURROGATE = re.compile("[\ud800-\udfff]")
_KNOWN_KEYS = frozenset({"id", "properties", "vector", "label", "source", "metadata", "entity_id"})


@dataclass(frozen=True, slots=True)
class Fragment:
    """One observation: attribute -> values, or a vector, or both.

    `label` is gold: training, calibration and evaluation may read it, clustering never does.
    """

    id: str
    properties: Mapping[str, tuple[str, ...]]
    vector: tuple[float, ...] | None = None
    label: str | None = None
    source: str | None = None
    metadata: Mapping[str, Any] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The surface forms: the values of `name`."""
        return self.properties.get("name", ())

    @property
    def row(self) -> int | None:
        """Its position in its source, if its metadata have it."""
        row = None if self.metadata is None else self.metadata.get(ROW)
        return row if type(row) is int and row > 0 else None

    @property
    def known(self) -> str | None:
        """The id of the known entity that it represents, if its metadata have it."""
        known = None if self.metadata is None else self.metadata.get(AUTHORITY)
        return known if isinstance(known, str) and known else None

    @property
    def asserted_of(self) -> str | None:
        """The id of the fragment that a person speaks of, if its metadata have it."""
        about = None if self.metadata is None else self.metadata.get(ASSERTED_OF)
        return about if isinstance(about, str) and about else None

    @property
    def place(self) -> str | None:
        """Where to find it: its source, and the row if it has one; None if unknown."""
        if self.source is None or self.row is None:
            return self.source
        return f"{self.source}:{self.row}"

    def to_json(self) -> dict[str, Any]:
        """The JSON object of this fragment; `from_json` is its inverse."""
        out: dict[str, Any] = {
            "id": self.id,
            "properties": {key: list(values) for key, values in self.properties.items()},
        }
        if self.vector is not None:
            out["vector"] = list(self.vector)
        if self.label is not None:
            out["label"] = self.label
        if self.source is not None:
            out["source"] = self.source
        if self.metadata is not None:
            out["metadata"] = dict(self.metadata)
        return out

    @classmethod
    def from_json(cls, record: object, where: str, shared: Shared | None = None) -> Fragment:
        """Check one parsed JSON value and turn it into a fragment; `where` is `file:line`.

        Raises a BadRecord at the first law that the record breaks.
        """
        if not isinstance(record, dict):
            raise BadRecord(where, "a JSON object", _kind(record))
        if not record.keys() <= _KNOWN_KEYS:
            unknown = min(record.keys() - _KNOWN_KEYS)
            raise BadRecord(
                where, f"only the keys {', '.join(sorted(_KNOWN_KEYS))}", quoted(unknown)
            )
        metadata = _metadata(record.get("metadata"), where)
        fragment_id = record.get("id")
        if fragment_id is None and "entity_id" in record and metadata is not None:
            fragment_id = _kebab_id(metadata)
        label = record.get("label", record.get("entity_id"))
        vector = _vector(record.get("vector"), where)
        shared = Shared() if shared is None else shared
        properties = _properties(record.get("properties"), where, shared)
        if not properties and vector is None:
            raise BadRecord(where, "at least one property or a vector", "neither", "properties")
        return cls(
            id=_text(fragment_id, where, "id", MAX_ID_CHARACTERS),
            properties=properties,
            vector=vector,
            label=_optional_text(label, where, "label"),
            source=_source(record.get("source"), where, shared),
            metadata=metadata,
        )


def is_of_source(source: str | None, name: str | None) -> bool:
    """Whether a fragment comes from the source of this name.

    Stores of version 1 may have `table:row` as the source; this matches the table, too.
    """
    if source is None or name is None:
        return source == name
    row = source.removeprefix(f"{name}:")
    return source == name or (row != source and row.isascii() and row.isdigit())


class Shared:
    """Attributes and values of earlier fragments: each is checked once, and equal ones share
    memory."""

    __slots__ = ("attributes", "lists", "values")

    def __init__(self) -> None:
        self.attributes: dict[str, str] = {}
        self.values: dict[str, tuple[str, ...]] = {}  # by their only value
        self.lists: dict[tuple[str, ...], tuple[str, ...]] = {}  # several values, by themselves

    def checked(self, values: tuple[str, ...]) -> tuple[str, ...]:
        """The same values, as the earlier objects if they are short."""
        if sum(map(len, values)) > _LONGEST_SHARED:
            return values
        if len(values) == 1:
            return _put(self.values, values[0], values)
        return _put(self.lists, values, values)


_Key = TypeVar("_Key")
_Held = TypeVar("_Held")


def _put(into: dict[_Key, _Held], key: _Key, value: _Held) -> _Held:
    if len(into) >= _MOST_SHARED:
        into.clear()
    return into.setdefault(key, value)


def _kind(value: object) -> str:
    """A JSON value's type in JSON's terms, with the value if it is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f'the string "{quoted(value, 40)}"'
    return "an array" if isinstance(value, list) else "an object"


def _text(value: object, where: str, field: str, limit: int = MAX_VALUE_CHARACTERS) -> str:
    if not isinstance(value, str):
        raise BadRecord(where, "a string", _kind(value) if value is not None else "nothing", field)
    if not value:
        raise BadRecord(where, "a non-empty string", "an empty one", field)
    if len(value) > limit:
        raise BadRecord(where, f"at most {limit:,} characters", f"{len(value):,}", field)
    if "\0" in value:
        raise BadRecord(where, "text without NUL characters", quoted(value), field)
    if not value.isascii() and _SURROGATE.search(value):
        raise BadRecord(where, "valid Unicode", f"a lone surrogate in {quoted(value)}", field)
    return value


def _optional_text(value: object, where: str, field: str) -> str | None:
    return None if value is None else _text(value, where, field)


def _source(value: object, where: str, shared: Shared) -> str | None:
    """The name of a source, which most fragments share."""
    known = shared.attributes.get(value) if isinstance(value, str) else None
    if known is not None:
        return known
    source = _optional_text(value, where, "source")
    if source is None or len(source) > _LONGEST_SHARED:
        return source
    return _put(shared.attributes, source, source)


def _properties(value: object, where: str, shared: Shared) -> dict[str, tuple[str, ...]]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRecord(where, "an object of lists of strings", _kind(value), "properties")
    if len(value) > MAX_ATTRIBUTES:
        raise BadRecord(
            where, f"at most {MAX_ATTRIBUTES:,} attributes", f"{len(value):,}", "properties"
        )
    out = {}
    for key, values in value.items():
        if type(values) is list and len(values) == 1 and type(values[0]) is str:
            text = values[0]
            name, held = shared.attributes.get(key), shared.values.get(text)
            if held is None and 0 < len(text) <= _LONGEST_SHARED and text.isascii():
                held = None if "\0" in text else _put(shared.values, text, (text,))
            if name is not None and held is not None:
                out[name] = held
                continue
        name = _text(key, where, "an attribute of properties", MAX_ID_CHARACTERS)
        if len(name) <= _LONGEST_SHARED:
            name = _put(shared.attributes, name, name)
        out[name] = shared.checked(_values(key, values, where))
    return out


def _values(key: str, values: object, where: str) -> tuple[str, ...]:
    field = f"properties.{key if key.isidentifier() and len(key) < 40 else quoted(key, 40)}"
    if not isinstance(values, list):
        raise BadRecord(where, "a list of strings", _kind(values), field)
    if not values:
        raise BadRecord(where, "at least one value", "an empty list", field)
    if len(values) > MAX_VALUES:
        raise BadRecord(where, f"at most {MAX_VALUES:,} values", f"{len(values):,}", field)
    return tuple(_text(item, where, field) for item in values)


def _vector(value: object, where: str) -> tuple[float, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value:
        got = "an empty list" if value == [] else _kind(value)
        raise BadRecord(where, "a non-empty list of numbers", got, "vector")
    if len(value) > MAX_DIMENSIONS:
        raise BadRecord(where, f"at most {MAX_DIMENSIONS:,} numbers", f"{len(value):,}", "vector")
    for item in value:
        if isinstance(item, bool) or not isinstance(item, int | float) or not math.isfinite(item):
            raise BadRecord(where, "finite numbers", _kind(item), "vector")
    return tuple(float(item) for item in value)


def _metadata(value: object, where: str) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BadRecord(where, "an object", _kind(value), "metadata")
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for part in level for inner in _parts(part) if type(inner) in (dict, list)]
        if not level:
            return value
    expected = f"at most {MAX_DEPTH} nested objects and arrays"
    raise BadRecord(where, expected, "more", "metadata")


def _parts(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _kebab_id(metadata: Mapping[str, Any]) -> str | None:
    """KeBAB numbers the fragments of a file in their metadata."""
    for key in ("fragment_id", "id"):
        if isinstance(metadata.get(key), int | str):
            return str(metadata[key])
    return None


OnBad: TypeAlias = Callable[[BadRecord, bytes], None]
"""Called with the error and the bad raw record; raises the error, or sets the record aside and
returns."""


class Source(ABC):
    """A reader of one format. The constructor's parameters are its options.

    Attributes:
        where: `file:line` of the last fragment, so that a repeated id can be placed; "" if the
            source does not say.
        counts: how many records each documented rule filtered or repaired, by the rule's name.
        taken: a sentence per complete input about what was detected: its delimiter, encoding, rows
            and columns.
        endings: extensions of files that it reads, such as ".csv": `kbforge load people.csv` uses
            the source that declares the extension.

        into: a `kbforge.files.lines.ColumnReader` that may take over rows, where all of one file is
            read; `read` yields the others. At a bad record or a repeated id the file is read again
            without it, so that `read` need not find these out beforehand.

    """

    endings: ClassVar[tuple[str, ...]] = ()

    where: str = ""
    into: Any = None

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter()

    @cached_property
    def taken(self) -> list[str]:
        return []

    @abstractmethod
    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield the fragments of the inputs (paths, or "-" for standard input).

        Raises:
            KBForgeError: an input that cannot be opened or is not of this format at all.
            BadRecord: a bad record, if `on_bad` raises it.

        """


def comparable(values: Sequence[str]) -> list[str]:
    """Distinct values without case and spaces, and without those that say nothing."""
    return [value for value in dict.fromkeys(map(_folded, values)) if value]


@lru_cache(maxsize=1 << 16)
def _folded(value: str) -> str:
    folded = "".join(normalize("NFKC", value).casefold().split())
    return folded if folded not in _NOTHING and any(map(str.isalnum, folded)) else ""


_NOTHING = {"n/a", "na", "nan", "nil", "none", "null", "unknown"}
