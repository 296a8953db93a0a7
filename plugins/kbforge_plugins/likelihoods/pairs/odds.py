"""Computes the log odds of all candidate pairs at once, with decision trees.

Log odds are clipped to integers of a small unit, and stored by row as the difference from the fixed
log odds of rows that are not candidates. Those of two different rows go through the layer that
answers taught, if any (`layer`). A later row is compared with the same file, so its log odds do not
depend on other later rows.

*Index.* A fragment's keys are its own row, one key for each pair with a row that may be the same
entity, and its names. A fragment outside the file gets the own keys of such rows.

*Linked tables.* The prior of a match between tables without duplicates is estimated. A record has
at most one partner in another table, so its second best candidate is not a partner: the log odds of
second best candidates show how similar records of different entities are in this file. Best
candidates with equally low log odds are not partners either. This gives the share of records
without a partner, like an estimate of the share of nulls (Storey 2002; Efron 2004):

    p0 = (share of best log odds below t) / (share of second best log odds below t)

with t the median of the second best. If few records have a partner, p0 is too low, because a record
without one has a second best candidate below its best. The odds of all pairs get the constant b
that makes the expected number of records with a partner equal:

    sum over records i of S_i / (1 + S_i) = (1 - p0) n    where S_i = sum over j of exp(b + o_ij)

If no record has a partner, the best are below t far less often than the second best: for
independent odds a share G of the best, where G - G ln G = .5, so G = .19 and 1 - p0 = .63. Only a
share near 1 is evidence, so a smaller one raises the odds little: labelled sets split into two
tables, a fifth of whose records had a partner, lost up to .12 of F1 otherwise.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import (
    CandidateIndex,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    PairAnswer,
)
from kbforge.fit.description import Lesson
from kbforge.kernel.binding import address, kernel_library
from kbforge.models.trees import Trees
from kbforge.numerics import spread, starts_of
from kbforge_plugins.likelihoods.pairs.bags import Bags, Part, PartReader
from kbforge_plugins.likelihoods.pairs.file import FEATURES, File, RowPairs, Rows, row_pairs
from kbforge_plugins.likelihoods.pairs.grown import better, grown, loss_of, suffice
from kbforge_plugins.likelihoods.pairs.layer import COLUMNS, Layer, TaughtFeatures
from kbforge_plugins.likelihoods.pairs.near import attributes_compared, comparable
from kbforge_plugins.likelihoods.pairs.table import Statement, statement_of

MODEL = "pairs.safetensors"
UNITS = 1 << 16
"""Units of log odds per nat."""
MOST = 6.0
"""Log odds are clipped to this bound on either side of 0, nats."""
APART = round(-5.0 * UNITS)
"""Log odds of two rows that are not candidates, in units."""

Row: TypeAlias = int
"""A row of the file or, from the file's length on, a later row."""


_NEAR_COSINE = 0.25
_FEW = 64


class LaterRows:
    """Rows outside the file, numbered in the order of their arrival."""

    def __init__(self) -> None:
        self._joined: Rows | None = None
        self._single: list[Rows] = []
        self._ways = (_TokenPostings(), _TokenPostings(), _TokenPostings())
        self._scripts = array("q")
        self.linked, self.compared = array("q"), array("q")  # see `RecordTable` and `near`

    def __len__(self) -> int:
        return len(self.linked)

    def near(self, row: Rows) -> IntArray:
        """The numbers of the rows near another row, ascending.

        They are near by letters, by words or, in another script, by consonants.
        """
        letters, words, consonants = (
            way.cosines(bags, len(self)) >= _NEAR_COSINE
            for way, bags in zip(self._ways, _bags_of(row), strict=True)
        )
        across = np.array(self._scripts) != row.table.script[0]
        return np.flatnonzero(letters | words | consonants & across)

    def add(self, row: Rows, compared: int) -> None:
        """Add one row, with its `attributes_compared`."""
        for way, bags in zip(self._ways, _bags_of(row), strict=True):
            way.add(bags, len(self))
        self._scripts.append(int(row.table.script[0]))
        self.linked.append(int(row.table.linked[0]))
        self.compared.append(compared)
        self._single.append(row)
        # joined so seldom that each row is copied only a few times
        if len(self._single) > max(_FEW, (len(self) - len(self._single)) // 8):
            before = [] if self._joined is None else [self._joined]
            self._joined = Rows.joined([*before, *self._single])
            self._single = []

    def place(self, number: int) -> tuple[Rows, int]:
        """The object that describes a row, and the row's place there."""
        joined = len(self) - len(self._single)
        if self._joined is not None and number < joined:
            return self._joined, number
        return self._single[number - joined], 0

    def parts(self, numbers: IntArray, last: Rows) -> Iterator[tuple[Rows, IntArray]]:
        """The places of these ascending numbers in the file and in later rows."""
        joined = len(self) - len(self._single)
        before = numbers[numbers < joined]
        if self._joined is not None and len(before):
            yield self._joined, before
        single = [self._single[at] for at in (numbers[numbers >= joined] - joined).tolist()]
        yield Rows.joined([*single, last]), np.arange(len(single) + 1)


def _bags_of(row: Rows) -> tuple[Bags, Bags, Bags]:
    return row.table.trigrams, row.table.all_text, row.table.consonants


class _TokenPostings:
    """For each token, the rows that have it, and its weight in the unit row."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[array[int], array[float]]] = {}

    def add(self, bags: Bags, number: int) -> None:
        """Add the single row of these bags."""
        for column, weight in _tokens(bags):
            rows, weights = self._rows.setdefault(column, (array("q"), array("d")))
            rows.append(number)
            weights.append(weight)

    def cosines(self, bags: Bags, n: int) -> FloatArray:
        """The cosines of the single row of these bags with all added rows, shape [n]."""
        rows, products = [np.zeros(0, np.int64)], [np.zeros(0)]
        for column, weight in _tokens(bags):
            if column in self._rows:
                some, weights = self._rows[column]
                rows.append(np.frombuffer(some, np.int64))
                products.append(np.frombuffer(weights, np.float64) * weight)
        # each sum is taken in the order of the columns, so that other rows do not change its bits
        sums = np.bincount(np.concatenate(rows), np.concatenate(products), minlength=n)
        return sums.astype(np.float64, copy=False)


def _tokens(bags: Bags) -> Iterator[tuple[int, float]]:
    columns, weights = bags.backwards()
    return zip(columns.tolist(), weights.tolist(), strict=True)


@dataclass(eq=False)
class OddsLinks:
    """The candidate pairs of a file by row, ascending, and their log odds minus `APART`, in units.

    `arrays` are, by first row, the starts, second rows and log odds; by second row, the starts,
    numbers of links and first rows; and `own`, the log odds of two identical fragments.
    """

    starts: IntArray
    second: NDArray[np.int32]
    above: NDArray[np.int32]
    own: NDArray[np.int32]

    def __post_init__(self) -> None:
        self._back, self._back_first = back = np.empty((2, len(self.second)), np.int32)
        self._back_starts = np.empty(len(self.starts), np.int64)
        by_first, by_second = (self.starts, self.second), (self._back_starts, *back)
        self.arrays: tuple[NDArray[np.integer[Any]], ...]
        self.arrays = (*by_first, self.above, *by_second, self.own)
        told = map(address, (*by_first, *by_second))
        kernel_library().kb_links_back(len(self.own), *told)

    @classmethod
    def fitted(cls, pairs: RowPairs, above: NDArray[np.int32], own: NDArray[np.int32]) -> OddsLinks:
        """Links of pairs i < j, ascending, shape [pairs, 2]."""
        starts = starts_of(np.bincount(pairs[:, 0], minlength=len(own)))
        return cls(starts, pairs[:, 1].copy(), above, own)

    def __len__(self) -> int:
        return len(self.second)

    @property
    def first(self) -> IntArray:
        """The first row of each link."""
        return np.repeat(np.arange(len(self.own)), np.diff(self.starts))

    def of(self, row: Row) -> tuple[IntArray, IntArray]:
        """The links of a row: their numbers, and the other rows."""
        here = np.arange(self.starts[row], self.starts[row + 1])
        back = slice(self._back_starts[row], self._back_starts[row + 1])
        return (
            np.concatenate([self._back[back], here]),
            np.concatenate([self._back_first[back], self.second[here]]),
        )

    def of_many(self, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The links of several rows: their numbers, the positions in `rows`, and the other rows."""
        here, of_here = spread(self.starts, rows)
        there, of_there = spread(self._back_starts, rows)
        return (
            np.concatenate([self._back[there], here]),
            np.concatenate([of_there, of_here]),
            np.concatenate([self._back_first[there], self.second[here]]),
        )

    def with_odds(self, above: NDArray[np.int32]) -> OddsLinks:
        """The same links with other log odds of two different rows."""
        return replace(self, above=above)

    def dump(self) -> Part:
        sizes = np.diff(self.starts).astype(np.int32)
        return {"sizes": sizes, "second": self.second, "above": self.above, "own": self.own}

    @classmethod
    def load(cls, kept: PartReader, rows: int) -> OddsLinks:
        starts = kept.starts("sizes", rows)
        n, most = int(starts[-1]), round(2 * MOST * UNITS)
        second = kept.array("second", np.int32, n, low=0, high=rows - 1)
        above = kept.array("above", np.int32, n, low=-most, high=most)
        return cls(starts, second, above, kept.array("own", np.int32, rows, low=-most, high=most))


class _AnsweredPairs(NamedTuple):
    """Pairs of rows that somebody has judged."""

    rows: IntArray  # [pairs, 2]
    plain: FloatArray  # [pairs] log odds by the trees, with the prior of a match
    features: NDArray[np.float32]  # [pairs, K] some of them
    same: FloatArray  # [pairs] the probability that they are one entity

    def where(self, chosen: NDArray[np.bool_]) -> _AnsweredPairs:
        """Some of the pairs."""
        rows, plain, features, same = self
        return _AnsweredPairs(rows[chosen], plain[chosen], features[chosen], same[chosen])


_BLOCK = 1 << 14  # pairs
_MOST_CACHED = 1 << 14


@dataclass(eq=False)
class Odds:
    """The log odds of pairs in one file: the sum of the trees over `file.FEATURES`, corrected by
    what answers taught."""

    file: File
    trees: Trees
    links: OddsLinks
    link: str | None = None
    bias: float = 0.0  # of the log odds of candidates, where tables are linked
    matches: float = 0.0  # so many are expected between them
    one_to_one: bool = False  # whether the linked tables seem to be; not kept
    layer: Layer | None = None  # None where nothing was taught

    def __post_init__(self) -> None:
        self._row_in_file: dict[Statement, Row] = {}  # cache
        self.forget()

    def forget(self) -> None:
        """Drop all later rows, whose numbers become invalid."""
        self._later = LaterRows()
        self._row_of: dict[Statement, Row] = {}  # of later rows
        self._near_later: list[dict[Row, int]] = []  # by later row, all that are near
        self._later_near: dict[Row, dict[Row, int]] = {}  # by row of the file, later rows near it
        self._near: dict[Row, dict[Row, int]] = {}  # cache, by row of the file

    @classmethod
    def fitted(
        cls,
        fragments: Sequence[Fragment],
        trees: Trees,
        link: str | None = None,
        weights: Sequence[float] = (),
        known: Likelihood | None = None,
    ) -> Odds:
        """The odds of a file's pairs; fragments that share a value of `link` are separate.

        `weights` are those of a layer; `known` is as in `FittedOdds.fitted`.
        """
        odds = cls.of_pairs(*File.fitted(fragments, link, known), trees, link)
        return odds.with_layer(odds.layer_of(weights)) if any(weights) else odds

    @classmethod
    def of_pairs(cls, file: File, pairs: RowPairs, trees: Trees, link: str | None) -> Odds:
        """The odds of a file whose candidate pairs are known, without a layer."""
        rows, own = file.rows, np.arange(len(file.counts))
        log_odds, alone = (
            file.log_odds(trees, rows, rows, some, APART / UNITS)
            for some in (pairs, row_pairs(own, own))
        )
        bias, matches, single = 0.0, 0.0, False
        if link is not None:
            bias, matches = match_bias(pairs, log_odds, rows.table.linked)
            single = one_to_one(pairs, log_odds, rows.table.linked, matches)
        links = OddsLinks.fitted(pairs, above_apart(log_odds + bias), above_apart(alone))
        return cls(file, trees, links, link, bias, matches, single)

    @cached_property
    def _described(self) -> tuple[FloatArray, TaughtFeatures]:
        """The trees' log odds of the links, and their features for a layer."""
        rows = self.file.rows
        return self._describe(rows, rows, row_pairs(self.links.first, self.links.second))

    def _describe(
        self, a: Rows, b: Rows, pairs: RowPairs, columns: Sequence[int] = COLUMNS
    ) -> tuple[FloatArray, TaughtFeatures]:
        """The trees' log odds of pairs, and some of their features, by default those for a layer;
        with the prior of a match.

        Only the features of some pairs are held at a time.
        """
        plain = np.empty(len(pairs))
        features = np.empty((len(pairs), len(columns)), np.float32)
        for start in range(0, len(pairs), _BLOCK):
            some = slice(start, start + _BLOCK)
            all_features = self.file.describe(a, pairs[some, 0], b, pairs[some, 1])
            plain[some] = self.trees.predict(all_features) + self.bias
            features[some] = all_features[:, columns]
        return plain, features

    @property
    def weights(self) -> tuple[float, ...]:
        """Those of the layer; none if nothing was taught."""
        return () if self.layer is None else tuple(self.layer.weights.tolist())

    def layer_of(self, weights: Sequence[float]) -> Layer:
        """A layer for this file."""
        return Layer.of_file(*self._described, weights)

    def taught(self, answers: Sequence[PairAnswer]) -> tuple[Odds, Lesson]:
        """The odds of the same file with the layer that answers teach, and what they teach."""
        asked = self._asked(answers, COLUMNS)
        told = asked.where(asked.rows[:, 0] != asked.rows[:, 1])
        layer, lesson = self.layer_of(()).taught(told.plain, told.features, told.same)
        return self.with_layer(layer if layer.weights.any() else None), lesson

    def trained(self, labels: Sequence[PairAnswer]) -> tuple[Odds, Lesson]:
        """The odds of the same file by the trees that labels grow and the layer that they teach,
        and what they teach."""
        asked = self._asked(labels, range(len(FEATURES)))
        linked = self.file.rows.table.linked
        inside = np.asarray((asked.rows < len(linked)).all(axis=1))
        told = np.ones(len(inside), np.bool_)
        told[inside] = comparable(*linked[asked.rows[inside].T])
        asked = asked.where(told)
        start = asked.plain - self.bias
        trees, predicted = grown(self.trees, start, asked.features, asked.same, asked.rows)
        other = self
        if trees is not self.trees:
            pairs = row_pairs(self.links.first, self.links.second)
            other = Odds.of_pairs(self.file, pairs, trees, self.link)
        different = asked.rows[:, 0] != asked.rows[:, 1]
        asked, predicted = asked.where(different), predicted[different] + other.bias
        before = loss_of(asked.plain, asked.same)
        if suffice(asked.same):
            of_layer = predicted, asked.features[:, COLUMNS], asked.same
            layer, layered = other.layer_of(()).fitted(*of_layer)
            if better(layered, predicted, asked.same):
                other, predicted = other.with_layer(layer), layered
        return other, Lesson(len(asked.same), before, loss_of(predicted, asked.same))

    def _asked(self, answers: Sequence[PairAnswer], columns: Sequence[int]) -> _AnsweredPairs:
        """Answered pairs; fragments outside the file are read, but do not stay."""
        outside = copy(self)
        outside.forget()
        fragments = {id(x): x for one in answers for x in one[:2]}
        row = dict(zip(fragments, outside.encode_all([*fragments.values()]).tolist(), strict=True))
        rows = np.array([(row[id(a)], row[id(b)]) for a, b, _ in answers], np.int64).reshape(-1, 2)
        of: dict[tuple[int, int], tuple[Rows, Rows, list[tuple[int, int, int]]]] = {}
        for k, (one, other) in enumerate(rows.tolist()):
            (a, i), (b, j) = outside.rows_of(one), outside.rows_of(other)
            of.setdefault((id(a), id(b)), (a, b, []))[2].append((k, i, j))
        plain, features = np.empty(len(rows)), np.empty((len(rows), len(columns)), np.float32)
        for a, b, some in of.values():
            at, i, j = np.array(some).T
            plain[at], features[at] = self._describe(a, b, row_pairs(i, j), columns)
        same = np.array([same for *_, same in answers], np.float64)
        return _AnsweredPairs(rows, plain, features, same)

    def with_layer(self, layer: Layer | None) -> Odds:
        """The odds of the same file with another layer, without its later rows."""
        links, (plain, features) = self.links, self._described
        above = np.empty(len(links), np.int32)
        for start in range(0, len(links), _BLOCK):
            some = slice(start, start + _BLOCK)
            here = plain[some] if layer is None else layer.odds(plain[some], features[some])
            above[some] = above_apart(here)
        return replace(self, links=links.with_odds(above), layer=layer)

    def dump(self) -> Part:
        return {
            **self.file.dump(),
            "links": self.links.dump(),
            "bias": self.bias,
            **({} if self.layer is None else {"layer": self.layer.dump()}),
        }

    @classmethod
    def load(cls, kept: PartReader, trees: Trees, link: str | None = None) -> Odds:
        file = File.load(kept)
        links = OddsLinks.load(kept.part("links"), len(file.counts))
        bias, layer = kept.number("bias", -MOST_BIAS, MOST_BIAS), kept.part("layer")
        taught = Layer.load(layer) if layer.length("weights") else None
        return cls(file, trees, links, link, bias, layer=taught)

    def encode(self, fragment: Fragment) -> Row:
        """The row of a fragment's statement; a new statement is compared with the file."""
        row = self.row_of(fragment, place=True)
        assert row is not None
        return row

    def encode_all(self, fragments: Sequence[Fragment]) -> IntArray:
        """The rows of fragments, as `encode`."""
        rows = self.file.rows_of(fragments)
        if rows is None:
            rows = np.fromiter(map(self.encode, fragments), np.int64, len(fragments))
        return rows

    def row_of(self, fragment: Fragment, place: bool) -> Row | None:
        """The row of a fragment's statement; if the file lacks it, it is compared with the file, or
        None."""
        renaming = self.file.renaming
        read = fragment if renaming is None else renaming.of(fragment)
        said = statement_of(read, self.link)
        row = self._row_of.get(said) if place else None
        row = self._row_in_file.get(said) if row is None else row
        if row is not None:
            return row
        row = self.file.row(said)
        if row is None:
            return self._place(said) if place else None
        if len(self._row_in_file) >= _MOST_CACHED:
            self._row_in_file.clear()
        self._row_in_file[said] = row
        return row

    @property
    def n_rows(self) -> int:
        """The number of rows of the file and later rows."""
        return len(self.file.counts) + len(self._later)

    def near(self, row: Row) -> Mapping[Row, int]:
        """For each candidate of a row, including itself: the log odds minus `APART`, in units."""
        n = len(self.file.counts)
        near = self._near_later[row - n] if row >= n else self._near.get(row)
        if near is None:
            if len(self._near) >= _MOST_CACHED:
                self._near.clear()
            numbers, others = self.links.of(row)
            near = dict(zip(others.tolist(), self.links.above[numbers].tolist(), strict=True))
            near[row] = int(self.links.own[row])
            near.update(self._later_near.get(row, {}))
            self._near[row] = near
        return near

    def near_of(self, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The first and second rows of the candidate pairs of some rows, and their `near`.

        All rows ascend; a pair of two of the given rows occurs in both directions.
        """
        links, n = self.links, len(self.file.counts)
        of_file = rows[rows < n]
        numbers, place, others = links.of_many(of_file)
        later = np.array(
            [
                (row, other, units)
                for row in rows.tolist()
                for other, units in (
                    self._near_later[row - n] if row >= n else self._later_near.get(row, {})
                ).items()
            ],
            dtype=np.int64,
        ).reshape(-1, 3)
        first = np.concatenate([of_file[place], of_file, later[:, 0]])
        second = np.concatenate([others, of_file, later[:, 1]])
        above = np.concatenate([links.above[numbers], links.own[of_file], later[:, 2]])
        order = np.lexsort((second, first))
        return first[order], second[order], above[order]

    def rows_of(self, row: Row) -> tuple[Rows, int]:
        """The object that describes a row, and the row's place there."""
        n = len(self.file.counts)
        return (self.file.rows, row) if row < n else self._later.place(row - n)

    def _later_odds(self, a: Rows, b: Rows, pairs: RowPairs) -> FloatArray:
        """The log odds of pairs of different rows."""
        if self.layer is not None:
            return self.layer.odds(*self._describe(a, b, pairs))
        return self.file.log_odds(self.trees, a, b, pairs, APART / UNITS) + self.bias

    def _place(self, said: Statement) -> Row:
        n = len(self.file.counts)
        row = n + len(self._later)
        rows, of_file = self.file.placed(said)
        later = self._later.near(rows)
        tables = np.frombuffer(self._later.linked, np.int64)[later]
        later = later[comparable(rows.table.linked, tables)]
        compared = int(attributes_compared(rows.table, self.file.naming)[0])
        later = later[(np.frombuffer(self._later.compared, np.int64)[later] & compared) != 0]
        others = [*of_file.tolist(), *(later + n).tolist(), row]
        log_odds = np.concatenate(
            [
                self._later_odds(rows, some, row_pairs(np.zeros_like(at), at))
                for some, at in ((self.file.rows, of_file), *self._later.parts(later, rows))
            ]
        )
        # the row itself is last, and has neither the prior of a match nor a layer
        itself = row_pairs(*np.zeros((2, 1), np.int64))
        log_odds[-1] = self.file.log_odds(self.trees, rows, rows, itself, APART / UNITS)[0]
        near = dict(zip(others, above_apart(log_odds).tolist(), strict=True))
        # nothing has changed yet, so that a failure leaves no trace
        for other, units in near.items():
            if n <= other < row:
                self._near_later[other - n][row] = units
            elif other < n:
                self._later_near.setdefault(other, {})[row] = units
                if other in self._near:
                    self._near[other][row] = units
        self._near_later.append(near)
        self._later.add(rows, compared)
        self._row_of[said] = row
        return row


def above_apart(log_odds: FloatArray, most: float = MOST) -> NDArray[np.int32]:
    """Log odds, clipped to a bound on either side of 0, minus `APART`, in units."""
    units = np.clip(log_odds, -most, most)
    units *= UNITS
    above: NDArray[np.int32] = np.rint(units, out=units).astype(np.int32)
    above -= APART
    return above


_LEAST = round(-4.5 * UNITS)
_BEST = 16
_SHIFT = 32
_NAMES = ("name", "bare")


def key_of_pair(one: Row, other: Row) -> int:
    """The key that two rows share."""
    return (min(one, other) + 1) << _SHIFT | max(one, other)


class PairIndex(CandidateIndex):
    """Keys from pairs of the file that may be one entity."""

    def __init__(self, odds: Odds) -> None:
        self.follow(odds)

    def follow(self, odds: Odds, leading: NDArray[np.bool_] | None = None) -> None:
        """Use the keys of another file, because an index may be used before its likelihood is
        fitted."""
        self._odds = odds
        self._n = len(odds.file.counts)
        self._leading = _leading(odds.links) if leading is None else leading

    def kept_leading(self) -> NDArray[np.uint8]:
        """The form that `leading_of` reads; the odds are saved separately."""
        return np.packbits(self._leading)

    def keys(self, fragment: Fragment) -> Sequence[int]:
        row = self._odds.encode(fragment)
        rows, place = self._odds.rows_of(row)
        at = np.array([place])
        keys = {-1 - abs(int(rows.table.numbers(form, at)[0])) for form in _NAMES}
        if row < self._n:
            numbers, others = self._odds.links.of(row)
            led = others[self._leading[numbers]].tolist()
            pairs = [key_of_pair(row, other) for other in led]
            return [row, *sorted(pairs), *sorted(keys)]
        return [*self._best(row), *sorted(keys)]

    def keys_of(self, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
        """See `kbforge.contracts.index`; vectorised where the file has all of the fragments."""
        odds = self._odds
        rows = odds.encode_all(fragments)
        if rows.max(initial=-1) >= self._n:
            return super().keys_of(fragments)
        places = np.arange(len(rows))
        numbers, of_link, others = odds.links.of_many(rows)
        led = np.flatnonzero(self._leading[numbers])
        of_link, one, other = of_link[led], rows[of_link[led]], others[led]
        pairs = (np.minimum(one, other) + 1) << _SHIFT | np.maximum(one, other)
        table = odds.file.rows.table
        names = np.stack([-1 - np.abs(table.numbers(form, rows)) for form in _NAMES])
        lower, upper = names.min(axis=0), names.max(axis=0)
        differ = np.flatnonzero(lower < upper)
        parts = (places, rows), (of_link, pairs), (places, lower), (differ, upper[differ])
        place, key = (np.concatenate(some) for some in zip(*parts, strict=True))
        kind = np.repeat(np.arange(len(parts)), [len(some) for some, _ in parts])
        order = np.lexsort((key, kind, place))
        return starts_of(np.bincount(place, minlength=len(rows))), key[order]

    def _best(self, row: Row) -> list[Row]:
        """A bounded number of the most probable rows of the file, ascending."""
        near = [
            (above, -other)
            for other, above in self._odds.near(row).items()
            if other < self._n and above + APART >= _LEAST
        ]
        return sorted(-other for _, other in sorted(near)[-_BEST:])


def leading_of(kept: PartReader, links: OddsLinks) -> NDArray[np.bool_]:
    """Load the form of `PairIndex.kept_leading`."""
    bits = kept.array("leading", np.uint8, (len(links) + 7) // 8)
    return np.unpackbits(bits, count=len(links)).astype(np.bool_)


def _leading(links: OddsLinks) -> NDArray[np.bool_]:
    """For each link, whether one of its rows is among the most probable rows of the other."""
    out = np.empty(len(links), dtype=np.bool_)
    arrays = map(address, links.arrays[:-1])
    least = _LEAST - APART
    kernel_library().kb_links_leading(len(links.own), *arrays, least, _BEST, address(out))
    return out


MOST_BIAS = 6.0
"""Bound of log odds on either side of 0, nats."""
_LEAST_RECORDS = 30
_QUANTILE = 0.5
_NEARLY_ALL = 0.9
"""Minimum share of records with a partner that is trusted."""
_UNSURE_BIAS = 1.0
"""Maximum increase of the odds, in nats, for a smaller share."""
_MOST_WITH_TWO = 0.1
"""Share of records with a second partner, among those with one, above which tables have duplicates.

In four pairs of tables without duplicates it is at most .03, in artists_nga .27. Files split at
random have .00 to .66: the fewer fragments an entity has, the lower it is, so this alone is weak
evidence."""
_STEPS = 30


def match_bias(pairs: RowPairs, log_odds: FloatArray, linked: IntArray) -> tuple[float, float]:
    """The constant added to the log odds of every pair, nats, and the expected number of matches.

    Both are 0 if there are too few records. More than a nat is added only if nearly all records
    have a partner. `pairs` [pairs, 2] are rows of different tables, `linked` the number of each
    row's table. Each pair of tables is examined from the smaller one.
    """
    record = _records(pairs, linked)
    order = np.lexsort((-log_odds, record))
    first = np.flatnonzero(np.diff(record[order], prepend=-1) > 0)
    if not len(first):
        return 0.0, 0.0
    sizes = np.diff(np.append(first, len(order)))
    best, several = log_odds[order[first]], sizes > 1
    second = log_odds[order[first[several] + 1]]
    if len(second) < _LEAST_RECORDS:
        return 0.0, 0.0
    limit = np.quantile(second, _QUANTILE)
    alone = min(1.0, float(np.mean(best < limit)) / _QUANTILE)
    expected = (1.0 - alone) * len(best)
    bias = _solved(record, log_odds, expected)
    if expected >= _NEARLY_ALL * len(best) or bias <= _UNSURE_BIAS:
        return bias, expected
    return _UNSURE_BIAS, _partners(record, log_odds + _UNSURE_BIAS)


def one_to_one(pairs: RowPairs, log_odds: FloatArray, linked: IntArray, expected: float) -> bool:
    """Whether nearly all records of the smaller of each two tables have one partner in the other.

    `expected` matches are as in `match_bias`. A duplicate within a table gives its partner a second
    one; it has none itself if the two are the whole entity. So one-to-one tables have few
    duplicates, even if records look like duplicates.
    """
    sizes = np.sort(np.unique(linked, return_counts=True)[1])[::-1]
    # each table is the smaller one beside all that are larger
    if expected < _NEARLY_ALL * float((sizes * np.arange(len(sizes))).sum()):
        return False
    likely = log_odds > 0
    found = pairs[likely]
    rows = np.concatenate([found, found[:, ::-1]])
    both = np.stack([rows[:, 0], linked[rows[:, 1]]], axis=1)
    partners = np.unique(both, axis=0, return_counts=True)[1]
    return len(partners) > 0 and float(np.mean(partners > 1)) <= _MOST_WITH_TWO


def _records(pairs: RowPairs, linked: IntArray) -> IntArray:
    """For each pair, a number for the record of the smaller of its two tables and the other
    table."""
    tables, which = np.unique(linked, return_inverse=True)
    sizes = np.bincount(which)
    table = which[pairs]
    size = sizes[table]
    # of tables of one size the first counts as the smaller
    larger = (size[:, 0] > size[:, 1]) | ((size[:, 0] == size[:, 1]) & (table[:, 0] > table[:, 1]))
    place = larger.astype(np.int64)
    at = np.arange(len(pairs))
    both = pairs[at, place].astype(np.int64) * len(tables) + table[at, 1 - place]
    return np.unique(both, return_inverse=True)[1].reshape(-1)


def _solved(record: IntArray, log_odds: FloatArray, wanted: float) -> float:
    """The bias with this expected number of records with a partner, by bisection."""
    low, high = -MOST_BIAS, MOST_BIAS
    for _ in range(_STEPS):
        bias = (low + high) / 2
        if _partners(record, log_odds + bias) < wanted:
            low = bias
        else:
            high = bias
    return (low + high) / 2


def _partners(record: IntArray, log_odds: FloatArray) -> float:
    """The expected number of records with a partner."""
    sums = np.bincount(record, np.exp(log_odds))
    return float((sums / (1.0 + sums)).sum())
