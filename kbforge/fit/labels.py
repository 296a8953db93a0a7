"""Labels: what somebody knows of fragments, for the model of pairs to learn from.

| a file of | says |
|---|---|
| fragments with labels | of which entity each fragment is |
| entities, as `kbforge cluster` writes | the same |
| a CSV or TSV table of two columns | the id of a fragment, and any name of its entity |
| a table of three columns | the ids of two fragments, and `same` or `different` |
| answers, as `kbforge review` writes | whether two fragments are one entity |

Tables have a header. Labels of other fragments are left out.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from kbforge.contracts import Decision, Fragment, Likelihood, PairAnswer
from kbforge.errors import BadRecord, KBForgeError, UsageError, counted, quoted
from kbforge.files.answers import read_decisions
from kbforge.files.fragments import read_fragments
from kbforge.files.io import called, open_input
from kbforge.files.kinds import kind_of
from kbforge.fit.description import UNREAD, PairModel, is_pair_model
from kbforge.kb.read import read_entities

AnyLikelihood = TypeVar("AnyLikelihood", bound=Likelihood)

_MOST = 100_000
"""Labelled pairs to learn from; of more, so many are drawn."""


@dataclass(frozen=True)
class Labels:
    """The labels of a file."""

    path: str
    entity: Mapping[str, str]  # of a fragment's id
    pairs: Sequence[Decision]

    def teach(self, likelihood: AnyLikelihood, fragments: Sequence[Fragment]) -> AnyLikelihood:
        """A model of pairs, fitted to these fragments, trained on from the labels; another
        likelihood as it is.

        Raises:
            UsageError: LightGBM is not installed.
            KBForgeError: no label says anything of two fragments that are compared.

        """
        if not is_pair_model(likelihood):
            return likelihood
        model = cast(PairModel, likelihood)
        told = [*self._of_pairs(fragments), *self._of_entities(model, fragments)]
        if not told:
            raise KBForgeError(
                f"{quoted(called(self.path), 400)}: expected labels of these fragments, got none "
                "of two that are compared"
            )
        if len(told) > _MOST:
            chosen = np.random.default_rng(0).choice(len(told), _MOST, replace=False)
            told = [told[k] for k in np.sort(chosen).tolist()]
        return cast(AnyLikelihood, model.trained(told))

    def _of_pairs(self, fragments: Sequence[Fragment]) -> Iterator[PairAnswer]:
        found = {fragment.id: fragment for fragment in fragments} if self.pairs else {}
        for one in self.pairs:
            if one.first in found and one.second in found:
                yield found[one.first], found[one.second], float(one.same is True)

    def _of_entities(self, model: PairModel, fragments: Sequence[Fragment]) -> Iterator[PairAnswer]:
        """The compared pairs of rows whose fragments have labels: the share of the pairs of these
        that are one entity."""
        known = [fragment for fragment in fragments if fragment.id in self.entity]
        if not known:
            return
        odds = model.pair_odds(known, np.zeros(len(known), np.bool_))
        labels: dict[int, Counter[str]] = {}
        stating: dict[int, list[Fragment]] = {}
        for row, fragment in zip(odds.row.tolist(), known, strict=True):
            if row != UNREAD:
                labels.setdefault(row, Counter())[self.entity[fragment.id]] += 1
                stating.setdefault(row, []).append(fragment)
        for one, other in zip(odds.first.tolist(), odds.second.tolist(), strict=True):
            if one > other or other not in labels or (one == other and len(stating[one]) < 2):
                continue
            same, theirs = one == other, labels[other]
            together = sum(n * (theirs[label] - same) for label, n in labels[one].items())
            pairs = labels[one].total() * (theirs.total() - same)
            yield stating[one][0], stating[other][-1], together / pairs


def read_labels(path: str) -> Labels:
    """Read strictly; a BadRecord names file, line and what was expected."""
    kind = kind_of(path)
    if kind == "table":
        return _of_table(path)
    if kind == "answers":
        return Labels(path, {}, read_decisions(path))
    if kind == "entities":
        said = {id: one.id for one in read_entities(path) for id in one.fragments}
        return Labels(path, said, ())
    labelled = (x for x in read_fragments(path) if x.label is not None)
    entity = {fragment.id: cast(str, fragment.label) for fragment in labelled}
    if not entity:
        raise KBForgeError(f"{quoted(called(path), 400)}: no fragment has a label")
    return Labels(path, entity, ())


_LONGEST = 1 << 16  # characters of a cell
_ENTITIES, _PAIRS = 2, 3
"""The columns of a table."""


def _of_table(path: str) -> Labels:
    entity, pairs = dict[str, str](), list[Decision]()
    for where, row in table_rows(path, (_ENTITIES, _PAIRS)):
        if len(row) == _ENTITIES:
            _require_once(entity, row[0], where)
            entity[row[0]] = row[1]
        elif row[2] not in ("same", "different"):
            raise BadRecord(where, "same or different", f'"{quoted(row[2], 40)}"')
        elif row[0] == row[1]:
            raise BadRecord(where, "two fragments", f'"{quoted(row[0], 40)}" twice')
        else:
            pairs.append(Decision(row[2] == "same", row[0], row[1]))
    return Labels(path, entity, pairs)


def read_table_of_entities(path: str) -> list[tuple[str, ...]]:
    """The fragments of each entity in a table of two columns: a fragment, any name of its
    entity."""
    entities, seen = dict[str, list[str]](), dict[str, str]()
    for where, row in table_rows(path, (_ENTITIES,)):
        _require_once(seen, row[0], where)
        seen[row[0]] = row[1]
        entities.setdefault(row[1], []).append(row[0])
    return [tuple(ids) for ids in entities.values()]


def _require_once(seen: Mapping[str, str], id: str, where: str) -> None:
    if id in seen:
        raise BadRecord(where, "each fragment once", f"{quoted(id)} again")


_FORMS = {
    (_ENTITIES,): "entities, or a table of two columns: fragment and entity",
    (_ENTITIES, _PAIRS): "fragment and entity, or two fragments and same or different",
}


def table_rows(path: str, widths: tuple[int, ...]) -> Iterator[tuple[str, list[str]]]:
    """(`file:line`, the cells) of each row below the header of a CSV or TSV table.

    All rows have the same number of cells, one of `widths`, and none is empty.
    """
    expected = _FORMS[widths]
    with open_input(path) as stream:
        lines = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            head = lines.readline()
            rows = csv.reader(lines, delimiter="\t" if "\t" in head else ",", strict=True)
            for number, row in enumerate(rows, 2):
                where = f"{quoted(path, 400)}:{number}"
                if len(row) not in widths or not all(row):
                    raise BadRecord(where, expected, counted(len(row), "column"))
                if (longest := max(map(len, row))) > _LONGEST:
                    raise BadRecord(where, expected, f"a cell of {longest:,} characters")
                widths = (len(row),)
                yield where, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise UsageError(f"{quoted(path, 400)}: expected {expected}: {error}") from None
