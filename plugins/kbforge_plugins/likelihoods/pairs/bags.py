"""Texts as sparse bags of tokens, and strict readers of saved arrays.

A token's weight is log((rows + 1) / (rows that have it + 1/2)). Tokens outside the file share
columns by their digest, so two new texts still agree on shared tokens.

Among the tokens are codes, units and figures: model numbers, sizes, versions.

| kind | of "Denon TU-1500RD tuner, 40 stations, 17 in" |
|---|---|
| codes | tu1500rd |
| units | in=17 |
| measures | in |
| figures | 40, 17 |

A code is a run of letters and digits, or several joined with `-`, `/` or `.`, of at least four
characters including a digit and a letter, or of at least five digits. Each unit has one spelling;
quantities are not converted.
"""

from __future__ import annotations

import math
import re
import zlib
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray, LearnedState
from kbforge.errors import ModelError
from kbforge.kernel.binding import address, kernel_library
from kbforge.models.bundle import KeptReader, Number, together
from kbforge.numerics import spread, starts_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


T = TypeVar("T", bound="DataclassInstance")

Part: TypeAlias = dict[str, Any]
"""What `dump` gives and `load` reads of a fitted part: JSON values, arrays, parts and states of
plugins, by name."""


def flattened(part: Part) -> LearnedState:
    """A part as plain data; a nested name follows the names of its parts and slashes."""
    values: dict[str, Any] = {}
    arrays: dict[str, NDArray[Any]] = {}

    def add(part: Part, within: str) -> None:
        for name, one in part.items():
            if isinstance(one, dict):
                add(one, f"{within}{name}/")
            elif isinstance(one, np.ndarray):
                arrays[within + name] = one
            elif isinstance(one, LearnedState):
                whole = together(LearnedState(), **{within + name: one})
                values.update(whole.values)
                arrays.update(whole.arrays)
            else:
                values[within + name] = one

    add(part, "")
    return LearnedState(values, arrays)


class PartReader:
    """Reads a flattened part by name; a missing value or a wrong type is a ModelError."""

    def __init__(self, kept: LearnedState, within: str = "", read: set[str] | None = None) -> None:
        self._kept, self._within = kept, within
        self._reader = KeptReader(kept, "likelihood pairs")
        self._read: set[str] = set() if read is None else read

    def part(self, name: str) -> PartReader:
        """The part of that name."""
        return PartReader(self._kept, f"{self._within}{name}/", self._read)

    def has(self, name: str) -> bool:
        """Whether there is a part of that name."""
        start = f"{self._within}{name}/"
        return any(key.startswith(start) for key in self._kept.arrays)

    def state(self, name: str) -> LearnedState:
        """The state of a plugin."""
        state = self._reader.part(self._named(name))
        whole = together(LearnedState(), **{self._within + name: state})
        self._read |= {*whole.arrays}
        return state

    def value(self, name: str) -> Any:
        """A JSON value."""
        return self._reader.fields.get(self._named(name), object, "a value")

    def whole(self, name: str, low: int = 0, high: int = (1 << 40) - 1) -> int:
        """A whole number from `low` to `high`."""
        self._reader.fields.get(self._named(name), int)
        return int(self.number(name, low, high))

    def number(self, name: str, low: float, high: float) -> float:
        """A number from `low` to `high`."""
        return self._reader.fields.within(self._named(name), low, high)

    def names(self, name: str) -> tuple[str, ...]:
        """Distinct texts."""
        names = self._reader.fields.texts(self._named(name))
        if len(set(names)) < len(names):
            raise self.damaged(name, "different names", "one of them twice")
        return names

    def array(
        self,
        name: str,
        dtype: type[Number],
        length: int = -1,
        width: int | None = None,
        low: float = -np.inf,
        high: float = np.inf,
    ) -> NDArray[Number]:
        """Finite numbers of shape [length] or [length, width], from `low` to `high`; -1 allows any
        length."""
        n = None if length < 0 else length
        return self._reader.array(self._named(name), dtype, n, low, high, width=width)

    def starts(self, name: str, n: int, low: int = 0) -> IntArray:
        """Where each of n runs begins, and where the last one ends, from their lengths."""
        return starts_of(self.array(name, np.int32, n, low=low).astype(np.int64))

    def length(self, name: str) -> int:
        """The size of an array."""
        return int(np.size(self._kept.arrays.get(self._named(name), ())))

    def strings(self, name: str, n: int = -1) -> Strings:
        """A number of texts; -1 allows any."""
        starts = self.starts(f"{name}/lengths", n)
        text = self.array(f"{name}/text", np.uint8, -1)
        whole = text.tobytes()
        try:
            whole.decode(errors="surrogatepass")
        except UnicodeDecodeError:
            raise self.damaged(f"{name}/text", "texts in UTF-8", "others") from None
        characters = np.append(np.flatnonzero(_begins_character(text)), len(text))
        if starts[-1] != len(characters) - 1:
            raise self.damaged(name, f"{starts[-1]:,} characters", f"{len(characters) - 1:,}")
        return Strings(whole, characters[starts])

    def damaged(self, name: str, expected: str, got: str) -> ModelError:
        """The error that names the damaged value."""
        return self._reader.wrong(self._within + name, expected, got)

    def require_all_read(self) -> None:
        """Refuse a state with unread values."""
        for name in sorted({*self._kept.values, *self._kept.arrays} - self._read):
            raise self.damaged(name, "nothing of that name", "something")

    def _named(self, name: str) -> str:
        """The full name of the value being read."""
        self._read.add(self._within + name)
        return self._within + name


@dataclass(eq=False, slots=True)
class Strings:
    """Many short texts joined into one, in UTF-8, with the position of each, shape [texts + 1]."""

    whole: bytes
    starts: IntArray

    @classmethod
    def of(cls, texts: Iterable[str]) -> Strings:
        """These texts."""
        encoded = [text.encode(errors="surrogatepass") for text in texts]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return cls(b"".join(encoded), starts_of(lengths))

    @classmethod
    def joined(cls, some: Sequence[Strings]) -> Strings:
        """All texts of several collections, in order."""
        lengths = np.concatenate([np.diff(one.starts) for one in some])
        return cls(b"".join([one.whole for one in some]), starts_of(lengths))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, at: int) -> str:
        return self.whole[self.starts[at] : self.starts[at + 1]].decode(errors="surrogatepass")

    def dump(self) -> Part:
        """The form that `PartReader.strings` reads; its lengths are in characters."""
        text = np.frombuffer(self.whole, dtype=np.uint8)
        characters = np.append(0, np.cumsum(_begins_character(text)))
        return {"text": text, "lengths": np.diff(characters[self.starts]).astype(np.int32)}

    @property
    def addresses(self) -> tuple[int, ...]:
        """What the kernel reads."""
        return address(self.starts), address(np.frombuffer(self.whole, dtype=np.uint8))


def _begins_character(text: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """For each byte in UTF-8, whether a character begins there."""
    begins: NDArray[np.bool_] = (text & 0xC0) != 0x80
    return begins


class TokenLists:
    """The tokens of many texts, as numbers in the order in which the tokens come first."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = defaultdict(count().__next__)
        self._flat, self._starts = array("i"), array("q", [0])

    @classmethod
    def of(cls, texts: Iterable[Iterable[str]]) -> TokenLists:
        """The tokens of these texts."""
        lists = cls()
        for tokens in texts:
            lists.add(tokens)
        return lists

    def add(self, tokens: Iterable[str]) -> None:
        """Add a text."""
        self._flat.extend(map(self._numbers.__getitem__, tokens))
        self._starts.append(len(self._flat))

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def tokens(self) -> list[str]:
        """The distinct tokens, by number."""
        return list(self._numbers)

    @property
    def flat(self) -> NDArray[np.int32]:
        """The numbers of all texts' tokens, end to end."""
        return np.array(self._flat, np.int32)

    @property
    def starts(self) -> IntArray:
        """Where those of each text begin, shape [texts + 1]."""
        return np.array(self._starts, np.int64)

    def texts(self) -> Iterator[list[str]]:
        """The tokens of each text."""
        tokens = self.tokens
        for start, end in pairwise(self._starts):
            yield [tokens[number] for number in self._flat[start:end]]

    def only(self, wanted: Callable[[str], bool]) -> TokenLists:
        """These texts with some of their tokens."""
        out = TokenLists()
        out._numbers = {token: k for k, token in enumerate(filter(wanted, self._numbers))}
        number = np.array([out._numbers.get(token, -1) for token in self._numbers], np.int32)
        flat = number[self.flat]
        before = np.append(0, np.cumsum(flat >= 0))
        out._flat.frombytes(flat[flat >= 0].tobytes())
        out._starts.frombytes(before[self.starts[1:]].tobytes())
        return out

    def each(self, made: Callable[[str], str]) -> TokenLists:
        """These texts with another token in the place of each."""
        out = TokenLists()
        new = np.fromiter(map(out._numbers.__getitem__, map(made, self._numbers)), np.int32)
        out._flat.frombytes(new[self.flat].tobytes())
        out._starts = self._starts
        return out

    def together(self, starts: IntArray, which: IntArray) -> TokenLists:
        """The tokens of runs of these texts, which begin at `starts` in `which`, distinct."""
        at, _ = spread(self.starts, which)
        before = np.append(0, np.cumsum(np.diff(self.starts)[which]))
        of_runs, flat = tidied(before[starts], self.flat[at])
        out = TokenLists()
        out._numbers = self._numbers
        out._flat.frombytes(flat.tobytes())
        out._starts.frombytes(of_runs[1:].tobytes())
        return out


def tidied(starts: IntArray, columns: NDArray[np.int32]) -> tuple[IntArray, NDArray[np.int32]]:
    """Rows of numbers, ascending and each once; these arrays are written."""
    kernel_library().kb_bags_tidy(len(starts) - 1, address(starts), address(columns))
    return starts, columns[: starts[-1]]


_UNSEEN_COLUMNS = 1 << 12


class Weights:
    """The tokens of a file, distinct and ascending, and their weights by column.

    The last columns are for tokens outside the file.
    """

    def __init__(self, tokens: Strings, counts: IntArray, n: int) -> None:
        self._tokens, self._counts, self._n = tokens, counts, n
        self._columns: dict[str, int] = {}
        some, which = np.unique(counts, return_inverse=True)
        of_count = [max(math.log((n + 1) / (count + 0.5)), 0.05) for count in some.tolist()]
        unseen = max(math.log((n + 1) / 0.5), 0.05)
        self.weight = np.concatenate(
            [np.array(of_count, dtype=np.float64)[which], np.full(_UNSEEN_COLUMNS, unseen)]
        )

    @classmethod
    def fitted(cls, texts: TokenLists) -> Weights:
        """From the tokens of each text of the file, distinct within a text."""
        tokens = texts.tokens
        order = sorted(range(len(tokens)), key=tokens.__getitem__)
        counts = np.bincount(texts.flat, minlength=len(tokens)).astype(np.int64)[order]
        weights = cls(Strings.of(tokens[at] for at in order), counts, len(texts))
        weights._columns = {tokens[at]: column for column, at in enumerate(order)}
        return weights

    def forget(self) -> None:
        """Drop cached columns, once the whole file was read."""
        self._columns = {}

    def dump(self) -> Part:
        counts = self._counts.astype(np.int32)
        return {"texts": self._n, "tokens": self._tokens.dump(), "counts": counts}

    @classmethod
    def load(cls, kept: PartReader) -> Weights:
        tokens = kept.strings("tokens")
        n = kept.whole("texts")
        counts = kept.array("counts", np.int32, len(tokens), low=1)
        return cls(tokens, counts.astype(np.int64), n)

    def rows(self, texts: TokenLists) -> Bags:
        """One row for the tokens of each text."""
        column = np.fromiter(map(self._column, texts.tokens), np.int32, len(texts.tokens))
        # tokens that the file does not have may share a column
        return Bags.of(self.weight, *tidied(texts.starts, column[texts.flat]))

    def _column(self, token: str) -> int:
        column = self._columns.get(token)
        if column is None:
            column = bisect_left(self._tokens, token)
            if column == len(self._tokens) or self._tokens[column] != token:
                digest = zlib.crc32(token.encode(errors="surrogatepass"))
                return len(self._tokens) + digest % _UNSEEN_COLUMNS
            self._columns[token] = column
        return column


@dataclass(eq=False, slots=True)
class Bags:
    """Rows of tokens: columns ascending within a row, the sum of its weights, and a scale.

    Scaled, the squares of a row sum to 1; the scale of a text without tokens is 0.
    """

    weight: FloatArray
    starts: IntArray
    columns: NDArray[np.int32]
    mass: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, weight: FloatArray, starts: IntArray, columns: NDArray[np.int32]) -> Bags:
        """Rows with their masses and scales."""
        mass, scale = np.empty((2, len(starts) - 1))
        columns = np.ascontiguousarray(columns)
        told = address(weight), address(starts), address(columns), address(mass), address(scale)
        kernel_library().kb_bags_sums(len(mass), *told)
        return cls(weight, starts, columns, mass, scale)

    @classmethod
    def joined(cls, some: Sequence[Bags]) -> Bags:
        """All rows of several collections with the same columns, in order."""
        return cls(
            some[0].weight,
            starts_of(np.concatenate([np.diff(one.starts) for one in some])),
            np.concatenate([one.columns for one in some]),
            np.concatenate([one.mass for one in some]),
            np.concatenate([one.scale for one in some]),
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def dump(self) -> Part:
        return {"sizes": np.diff(self.starts).astype(np.int32), "columns": self.columns}

    @classmethod
    def load(cls, kept: PartReader, weights: Weights, rows: int) -> Bags:
        starts = kept.starts("sizes", rows)
        if kept.length("columns") > starts[-1]:
            got = f"{kept.length('columns'):,} (version 0.1 wrote this for a token in many rows)"
            raise kept.damaged("columns", f"{starts[-1]:,} tokens by the sizes of the rows", got)
        last = len(weights.weight) - 1
        columns = kept.array("columns", np.int32, int(starts[-1]), low=0, high=last)
        return cls.of(weights.weight, starts, columns)

    @property
    def addresses(self) -> tuple[int, ...]:
        """What the kernel reads."""
        tokens = address(self.weight), address(self.starts), address(self.columns)
        return *tokens, address(self.mass), address(self.scale)

    def backwards(self) -> tuple[NDArray[np.int32], FloatArray]:
        """The columns of bags of one row, and its unit weights, the last column first."""
        columns = self.columns[::-1]
        return columns, self.weight[columns] * self.scale


def joined_fields(some: Sequence[T]) -> T:
    """All rows of several dataclasses, in order; arrays are joined along the last axis."""
    first = some[0]
    return type(first)(
        *(_joined([getattr(one, field.name) for one in some]) for field in fields(first))
    )


def _joined(some: Sequence[Any]) -> Any:
    first = some[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(some, axis=-1)
    if isinstance(first, Mapping):
        return {name: _joined([one[name] for one in some]) for name in first}
    return type(first).joined(some)


CODE_BAGS = ("codes", "units", "measures", "figures")
LONGEST_READ = 600
"""Maximum number of characters of a record that are read."""
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


def codes_of(text: str) -> dict[str, list[str]]:
    """For each kind in `CODE_BAGS`, the distinct tokens of a folded text, up to a maximum."""
    text = text[:LONGEST_READ]
    measured = [(_MEASURES[unit], _plain(number)) for number, unit in _UNIT.findall(text)]
    codes = [
        code
        for run in _CODE.findall(text)
        if not run.isalpha()
        and _is_code(code := run if run.isalnum() else _JOINS.sub("", run))
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
    """The letters and digits of a folded text, which contain a code however it is punctuated."""
    return _NEITHER.sub("", text[:LONGEST_READ])


def _plain(number: str) -> str:
    """A number without a decimal comma or unnecessary zeros."""
    number = number.replace(",", ".")
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return number.lstrip("0") or "0"


def _is_code(run: str) -> bool:
    if run.isdigit():
        return len(run) >= _LEAST_NUMBER
    return not run.isalpha() and len(run) >= _LEAST_CODE
