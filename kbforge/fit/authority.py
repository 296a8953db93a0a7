"""An authority: known entities, and which of them each fragment may belong to.

A known entity is one fragment with all values of its fragments, so a name that differs from a
mention is no evidence against it. Known entities are clustered first, and no cluster has two. An
entity far from all mentions cannot gain any, so only some entities of a large authority take part:
for each mention, the nearest entities by the keys of two indexes, of values and pairs of values
(`selective`) and of n-grams (`ngrams`),

    similarity(m, e) = sum over the keys k of both of log((N + 1) / n_k)

with n_k of the N entities having k. Keys are used from the rarest on until a limit on the work is
reached, so very common keys are left out, and the work grows with the number of mentions. The
indexes are built once, and keep only the keys of mentions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import msgspec
import numpy as np
from scipy import sparse

from kbforge.contracts import (
    CandidateIndex,
    Entity,
    Fragment,
    IntArray,
    OnStage,
    Provenance,
    Stage,
)
from kbforge.contracts.fragment import AUTHORITY
from kbforge.errors import UsageError, counted, option, quoted
from kbforge.fit.choices import PreparedRun, RunOptions
from kbforge.indexes import make_index
from kbforge.kb.entities import described, fragments_of, mean_vector
from kbforge.kb.links import KnownLink

WHOLE = 20_000
"""All entities of an authority up to this size take part."""
NEAREST = 5
"""Known entities per mention that take part in a larger authority."""
_LEAST_SHARE = 0.6  # of the similarity of the nearest one
_WORK_A_MENTION = 5_000
_AT_ONCE = 8_192
_MENTIONS_AT_ONCE = 512
_INDEXES = ("selective", "ngrams")


@dataclass(frozen=True, slots=True)
class Authority:
    """Known entities, each as one fragment with its id and all of its values.

    `note` is a sentence for the user about what was read as an entity; `name` is the authority's
    name for the user, such as its file.
    """

    entities: tuple[Fragment, ...]
    note: str = ""
    name: str = ""

    @classmethod
    def of_fragments(cls, fragments: Iterable[Fragment]) -> Authority:
        """An authority of fragments: fragments with the same label are one entity; others are
        single.

        Raises:
            UsageError: there are no fragments, or a label is also the id of a fragment without one.

        """
        by_label: dict[str, list[Fragment]] = {}
        alone: dict[str, list[Fragment]] = {}
        for x in fragments:
            if x.label is None:
                alone[x.id] = [x]
            else:
                by_label.setdefault(x.label, []).append(x)
        both = alone.keys() & by_label.keys()
        if both:
            raise UsageError(
                f'the authority has "{quoted(min(both))}" both as a label and as the id of a '
                "fragment without a label; give one of them another name"
            )
        note = ""
        if alone:
            some = counted(len(alone), "fragment")
            which = f"{some} of the authority without a label: each"
            which = which if by_label else f"the authority has no labels: each of its {some}"
            note = f"{which} is a separate entity"
        return cls._of(chain(by_label.items(), alone.items()), note)

    @classmethod
    def of_entities(cls, entities: Iterable[Entity]) -> Authority:
        """The entities of a knowledge base; a UsageError if there are none."""
        return cls._of((entity.id, fragments_of(entity)) for entity in entities)

    @classmethod
    def _of(cls, groups: Iterable[tuple[str, Sequence[Fragment]]], note: str = "") -> Authority:
        found = tuple(_as_one(id, fragments) for id, fragments in groups)
        if not found:
            raise UsageError("the authority has no entities")
        return cls(found, note)

    def __len__(self) -> int:
        return len(self.entities)

    @property
    def ids(self) -> frozenset[str]:
        """Those of the entities."""
        return frozenset(x.id for x in self.entities)

    def near(self, mentions: Sequence[Fragment]) -> list[Fragment]:
        """The entities that a mention may belong to, in order."""
        entities = self.entities
        described = any(x.properties for x in mentions) and any(x.properties for x in entities)
        if len(entities) <= WHOLE or not described:
            return list(entities)
        near = np.unique(np.concatenate(list(_nearest(entities, mentions))))
        return [entities[at] for at in near.tolist()]


def _as_one(id: str, fragments: Sequence[Fragment]) -> Fragment:
    """A known entity as one fragment with all values of its fragments."""
    first = fragments[0]
    properties = first.properties
    if len(fragments) > 1:
        stated: dict[str, dict[str, None]] = {}
        for x in fragments:
            for attribute, values in x.properties.items():
                stated.setdefault(attribute, {}).update(dict.fromkeys(values))
        properties = {attribute: tuple(values) for attribute, values in stated.items()}
    vector = first.vector if len(fragments) == 1 else mean_vector(fragments)
    metadata = {AUTHORITY: id} if first.metadata is None else {**first.metadata, AUTHORITY: id}
    return Fragment(id, properties, vector, first.label, first.source, metadata)


def mentions_of(fragments: Sequence[Fragment], authority: Authority) -> list[Fragment]:
    """The fragments that do not represent known entities.

    Raises:
        UsageError: one has the id of an entity of the authority.

    """
    known = authority.ids
    for x in fragments:
        if x.id in known:
            raise UsageError(
                f'{option("against")}: "{quoted(x.id)}" is the id of a fragment and of an entity '
                "of the authority; expected ids that differ, so rename one of them"
            )
    return [unmarked(x) if x.known is not None else x for x in fragments]


def entered(
    fragments: Sequence[Fragment],
    authority: Authority,
    choices: RunOptions,
    all_known: bool = False,
    on_stage: OnStage | None = None,
) -> tuple[list[Fragment], KnownEntities]:
    """The known entities near the fragments and then the fragments, for a clustering.

    Raises:
        UsageError: as `mentions_of`, or the chosen estimate may merge known entities.

    """
    if choices.estimate != "map":
        raise UsageError(
            f"{option('estimate', choices.estimate)} may merge entities of the authority; leave it "
            f"out, or {option('against')}"
        )
    mentions = mentions_of(fragments, authority)
    if on_stage is not None:
        on_stage(Stage("finding known entities near the fragments", 1, 1))
    near = authority.near(mentions)
    return [*near, *mentions], KnownEntities(authority, len(near), all_known)


@dataclass(frozen=True, slots=True)
class KnownEntities:
    """An authority that fragments were clustered against, and the number of entities that took
    part.

    With `all`, the knowledge base includes entities that no fragment joined.
    """

    authority: Authority
    near: int
    all: bool = False

    def honoured(self, fit: PreparedRun) -> PreparedRun:
        """The same, with known entities kept separate, and notes for the user."""
        total = len(self.authority)
        which = f"{self.near:,} of {counted(total, 'known entity', 'known entities')}"
        some = f"{which} are near a fragment; the others took no part" if self.near < total else ""
        notes = filter(None, (self.authority.note, some))
        return replace(with_known(fit), notes=(*notes, *fit.notes))

    def recorded(self, made: Provenance) -> Provenance:
        """The record of how entities were made, with the authority."""
        choices = {**made.choices, "against": self.authority.name}
        return msgspec.structs.replace(made, choices=choices)

    def summary(self, links: Sequence[KnownLink]) -> dict[str, int]:
        """The additional figures of `kbforge cluster --against --json`."""
        linked = [link.entity for link in links if link.linked]
        return {
            "mentions": len(links),
            "linked": len(linked),
            "known_entities": len(self.authority),
            "known_entities_with_mentions": len(set(linked)),
        }

    def kept(
        self, entities: Iterable[Entity], fragments: Sequence[Fragment], subproblems: int
    ) -> Iterator[Entity]:
        """The entities of the knowledge base, from the clustering of the fragments."""
        took_part = {x.id for x in fragments if x.known is not None}
        for entity in entities:
            if self.all or not took_part.issuperset(entity.fragments):
                yield entity
        for x in self.authority.entities if self.all else ():
            if x.id not in took_part:
                yield replace(described([x]), id=x.id, subproblem=subproblems)
                subproblems += 1


def with_known(fit: PreparedRun) -> PreparedRun:
    """The same, with a constraint that separates known entities."""
    constraints = replace(fit.spec.constraints, known=True)
    return replace(fit, spec=replace(fit.spec, constraints=constraints))


def unmarked(x: Fragment) -> Fragment:
    """The fragment without the mark of an authority."""
    left = {key: value for key, value in (x.metadata or {}).items() if key != AUTHORITY}
    return replace(x, metadata=left or None)


def _nearest(entities: Sequence[Fragment], mentions: Sequence[Fragment]) -> Iterator[IntArray]:
    """For each mention, the nearest entities, the nearest first."""
    (a, by_a), (b, by_b) = (_shared_keys(name, entities, mentions) for name in _INDEXES)
    for begin in range(0, len(mentions), _MENTIONS_AT_ONCE):
        some = slice(begin, begin + _MENTIONS_AT_ONCE)
        block = sparse.csr_array(a[some] @ by_a + b[some] @ by_b)
        for first, end in pairwise(block.indptr.tolist()):
            found, similarity = block.indices[first:end], block.data[first:end]
            enough = _LEAST_SHARE * similarity.max(initial=0.0)
            if len(found) > NEAREST:
                enough = max(enough, np.partition(similarity, -NEAREST)[-NEAREST])
            near = np.flatnonzero(similarity >= enough)
            found, similarity = found[near], similarity[near]
            yield found[np.lexsort((found, -similarity))[:NEAREST]].astype(np.int64)


def _shared_keys(
    name: str, fragments: Sequence[Fragment], mentions: Sequence[Fragment]
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """The keys of mentions by an index, weighted, shape [mentions, keys]; those of fragments,
    shape [keys, fragments].
    """
    index: CandidateIndex = make_index(name)
    index.fit(fragments)
    asked, keys = _keys(index, mentions)
    wanted, column = np.unique(keys, return_inverse=True)
    held, columns = _held(index, fragments, wanted)
    of_mentions = np.bincount(column, minlength=len(wanted))
    of_fragments = np.bincount(columns, minlength=len(wanted))
    order = np.argsort(of_fragments, kind="stable")
    spent = np.cumsum((of_fragments * of_mentions)[order])
    kept = np.zeros(len(wanted), dtype=np.bool_)
    kept[order[spent <= _WORK_A_MENTION * len(mentions)]] = True
    weight = np.log((len(fragments) + 1) / np.maximum(of_fragments, 1)).astype(np.float32)
    here, there = kept[column], kept[columns]
    places = (asked[here], column[here]), (columns[there], held[there])
    ones = np.ones(len(places[1][0]), dtype=np.float32)
    return (
        sparse.csr_array((weight[places[0][1]], places[0]), shape=(len(mentions), len(wanted))),
        sparse.csr_array((ones, places[1]), shape=(len(wanted), len(fragments))),
    )


def _keys(index: CandidateIndex, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
    """All keys of fragments, and the number of each key's fragment."""
    owners, keys = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for begin in range(0, len(fragments), _AT_ONCE):
        starts, some = index.keys_of(fragments[begin : begin + _AT_ONCE])
        owners.append(begin + np.repeat(np.arange(len(starts) - 1), np.diff(starts)))
        keys.append(some)
    return np.concatenate(owners), np.concatenate(keys)


def _held(
    index: CandidateIndex, fragments: Sequence[Fragment], wanted: IntArray
) -> tuple[np.ndarray, np.ndarray]:
    """The wanted keys of fragments: the fragments, and the places of the keys."""
    owners, places = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for begin in range(0, len(fragments) if len(wanted) else 0, _AT_ONCE):
        of, keys = _keys(index, fragments[begin : begin + _AT_ONCE])
        at = np.searchsorted(wanted, keys).clip(max=len(wanted) - 1)
        there = wanted[at] == keys
        owners.append((begin + of[there]).astype(np.int32))
        places.append(at[there].astype(np.int32))
    return np.concatenate(owners), np.concatenate(places)
