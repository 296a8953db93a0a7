"""An audit: questions whose answers estimate how right a grouping is, without labels.

The pool (`Pool`) has all pairs of the fragments, in strata by the log odds of the pair model, and
the entities with their nearest others. Questions about pairs and about entities take turns, so that
an audit can end at any time:

| how | question |
|---|---|
| sampled | is a one with b? The pair is drawn uniformly from a stratum |
| whole | is a one with all others of its entity, of which b is one? |
| entity | is a one with b, a fragment of a near entity or, if a is not one with all, of its own |

Entities come in a random order, the same for every grouping that has them, and so do the fragments
of one. What to ask next depends on the grouping, the seed and the earlier answers alone, so an
interrupted audit goes on where it ended. Answers that were given about another grouping of the same
fragments count, too: those about sampled pairs by the number of pairs that each stood for, others
if the same is asked. `kbforge.evaluation.audit` estimates.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Generator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.evaluation import audit
from kbforge.evaluation.audit import APART_CUTS, JOINED_CUTS, PairAnswers, Strata, ThreeScores
from kbforge.files.answers import (
    ENTITY,
    SAMPLED,
    WHOLE,
    Answer,
    AnswerFile,
    QuestionDetails,
    placed,
)
from kbforge.fit.alpha import fingerprint
from kbforge.fit.description import PairOdds
from kbforge.fit.questions import CandidatePair
from kbforge.fit.review import MOST_OTHERS, Evidence, Review, Side

MOST_NEAR = 3
"""Maximum number of near entities that an examined entity is compared with."""
_MOST_SHOWN = 400  # other fragments of an entity that is asked about whole
_FOLLOWING = 2  # fragments of a mixed entity to compare with
_LONGEST = 4  # answers that most entities take
_OF_AN_AUDIT = (SAMPLED, WHOLE, ENTITY)
_TRIES = 10_000
_AT_ONCE, _BATCHES = 4096, 64


class _Links(NamedTuple):
    """The pairs that the model compares, by cell: the fragments of one row in one entity.

    Within entities they are pairs of cells; of two entities there is the most similar one, which
    stands for all pairs of their fragments.
    """

    first: IntArray  # [links] cells
    second: IntArray
    nats: FloatArray  # [links] log odds
    pairs: IntArray  # [links] pairs of fragments that each stands for
    stratum: IntArray  # [links]
    key: IntArray  # [links] ascending, by `Pool.keys`


class Pool:
    """All pairs of fragments, which are grouped into `entities` by their numbers."""

    def __init__(self, entities: Sequence[Sequence[int]], odds: PairOdds) -> None:
        self.sizes = np.array([*map(len, entities)])
        self.members = np.concatenate([*map(np.asarray, entities)])
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.entity = np.empty(len(self.members), np.int64)  # of each fragment
        self.entity[self.members] = np.repeat(np.arange(len(entities)), self.sizes)
        row = odds.row.astype(np.int64)
        unread = row < 0
        read = max(row.max(initial=-1), odds.second.max(initial=-1)) + 1
        row[unread] = read + np.arange(unread.sum())
        cells, self.cell = np.unique(row * len(entities) + self.entity, return_inverse=True)
        self.row_of, self.entity_of = np.divmod(cells, len(entities))
        self.count = np.bincount(self.cell)
        self.by_cell = np.argsort(self.cell, kind="stable")
        self.cell_ends = np.cumsum(self.count)
        self._links = self._linked(odds, int(max(row.max(), read)) + 1)
        few = len(JOINED_CUTS) + 1
        k = few + len(APART_CUTS) + 1
        counts, nats = (
            np.bincount(self._links.stratum, self._links.pairs * values, k)
            for values in (1.0, self._links.nats)
        )
        # the first has all pairs within entities that are not compared
        self._unlinked = (self.sizes * (self.sizes - 1) // 2).sum() - counts[:few].sum()
        counts[0] += self._unlinked
        mean = nats / np.maximum(counts, 1)
        self.strata = Strata.of(counts[:few], counts[few:], mean[few:], len(row))
        self._near = self._nearest()

    def keys(self, one: IntArray, other: IntArray) -> IntArray:
        """A number for the link of two cells: of the cells within an entity, else of the
        entities."""
        a, b = self.entity_of[one], self.entity_of[other]
        k = len(self.count)
        cells = np.minimum(one, other) * k + np.maximum(one, other)
        ends = k * k + np.minimum(a, b) * len(self.sizes) + np.maximum(a, b)
        return np.where(a == b, cells, ends)

    def _linked(self, odds: PairOdds, rows: int) -> _Links:
        """The pairs of cells whose rows are linked, and each cell with itself."""
        once = odds.first <= odds.second
        one, other = odds.first[once], odds.second[once]
        begin = np.searchsorted(self.row_of, np.arange(rows + 1))
        have, too = (begin[rows + 1] - begin[rows] for rows in (one, other))
        link = np.repeat(np.arange(len(one)), have * too)
        place = np.arange(len(link)) - np.repeat(np.cumsum(have * too) - have * too, have * too)
        first = begin[one[link]] + place // too[link]
        second = begin[other[link]] + place % too[link]
        distinct = (first < second) | (one[link] != other[link])
        own = np.arange(len(self.count))
        first = np.concatenate([first[distinct], own])
        second = np.concatenate([second[distinct], own])
        alike = np.full(len(own), JOINED_CUTS[-1])
        nats = np.concatenate([odds.nats[once][link][distinct], alike])
        key = self.keys(first, second)
        order = np.lexsort((-nats, key))
        best = order[np.diff(key[order], prepend=-1) != 0]
        first, second, nats = first[best], second[best], nats[best]
        a, b = self.entity_of[first], self.entity_of[second]
        within = np.where(first == second, self.count[first] - 1, 2 * self.count[second])
        pairs = np.where(a == b, self.count[first] * within // 2, self.sizes[a] * self.sizes[b])
        joined, apart = np.digitize(nats, JOINED_CUTS), np.digitize(nats, APART_CUTS)
        stratum = np.where(a == b, joined, len(JOINED_CUTS) + 1 + apart)
        return _Links(first, second, nats, pairs, stratum, key[best])

    def _nearest(self) -> tuple[IntArray, IntArray, IntArray]:
        """Cells of other entities by entity, the nearest first; where those of each begin, and how
        many of them are within reach."""
        links = self._links
        ends = self.entity_of[links.first], self.entity_of[links.second]
        apart = ends[0] != ends[1]
        own = np.concatenate([end[apart] for end in ends])
        cell = np.concatenate([links.second[apart], links.first[apart]])
        nats = np.tile(links.nats[apart], 2)
        order = np.lexsort((-nats, own))
        begin = np.searchsorted(own[order], np.arange(len(self.sizes) + 1))
        return cell[order], begin, np.bincount(own[nats >= audit.REACHED], None, len(self.sizes))

    def near(self, entity: int) -> list[int]:
        """Cells of the nearest entities: those within reach, and at least one if there is any."""
        cells, begin, within = self._near
        most = min(max(int(within[entity]), 1), MOST_NEAR)
        return [int(c) for c in cells[begin[entity] : begin[entity + 1]][:most]]

    def of(self, entity: int) -> IntArray:
        """The fragments of an entity."""
        start: int = self.starts[entity]
        return self.members[start : start + self.sizes[entity]]

    def in_cell(self, cell: int) -> IntArray:
        """The fragments of a cell."""
        end: int = self.cell_ends[cell]
        return self.by_cell[end - self.count[cell] : end]

    def stratum(self, i: int, j: int) -> int:
        """The stratum of a pair of fragments; the last one if they are not compared."""
        key = self.keys(self.cell[i], self.cell[j])
        at = int(np.searchsorted(self._links.key, key))
        if at < len(self._links.key) and self._links.key[at] == key:
            return int(self._links.stratum[at])
        return 0 if self.entity[i] == self.entity[j] else len(self.strata.sizes) - 1

    def draw(
        self, stratum: int, rng: np.random.Generator, taken: Collection[frozenset[int]] = ()
    ) -> tuple[int, int] | None:
        """A pair of a stratum, all but those taken with the same probability; None if none was
        found."""
        links = self._links
        at = np.flatnonzero(links.stratum == stratum)
        ends = np.cumsum(links.pairs[at])
        for _ in range(_TRIES):
            place = rng.random() * self.strata.sizes[stratum]
            if not len(ends) or place >= ends[-1]:
                pair = self._draw_unlinked(rng)
            else:
                pair = self._draw_linked(at[np.searchsorted(ends, place, side="right")], rng)
            if pair is None or frozenset(pair) not in taken:
                return pair
        return None

    def _draw_linked(self, link: int, rng: np.random.Generator) -> tuple[int, int]:
        one, other = int(self._links.first[link]), int(self._links.second[link])
        if one == other:
            i, j = rng.choice(self.in_cell(one), 2, replace=False)
        elif self.entity_of[one] == self.entity_of[other]:
            i, j = (rng.choice(self.in_cell(cell)) for cell in (one, other))
        else:
            i, j = (rng.choice(self.of(self.entity_of[cell])) for cell in (one, other))
        return int(i), int(j)

    def _draw_unlinked(self, rng: np.random.Generator) -> tuple[int, int] | None:
        """A pair within an entity that is not compared, by rejection."""
        ends = np.cumsum(self.sizes * (self.sizes - 1) // 2)
        for _ in range(_BATCHES):
            entity = np.searchsorted(ends, rng.random(_AT_ONCE) * ends[-1], side="right")
            size = self.sizes[entity]
            one = (rng.random(_AT_ONCE) * size).astype(np.int64)
            other = (one + 1 + (rng.random(_AT_ONCE) * (size - 1)).astype(np.int64)) % size
            i, j = (self.members[self.starts[entity] + place] for place in (one, other))
            free = np.flatnonzero(~np.isin(self.keys(self.cell[i], self.cell[j]), self._links.key))
            if len(free):
                return int(i[free[0]]), int(j[free[0]])
        return None


_Test: TypeAlias = tuple[str, int, int]
"""How, a and b of a question about an entity."""
_Examined: TypeAlias = tuple[bool, float]
"""Whether an entity is right, and its part in the number of true entities."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The estimates, and what they rest on."""

    pairs: ThreeScores
    entities: ThreeScores
    about_pairs: int  # known answers about sampled pairs
    about_entities: int  # answers about entities
    examined: int  # entities, to the end
    unknown: int  # answers

    def to_json(self) -> dict[str, Any]:
        """The figures by name."""
        told = asdict(self)
        for what in ("pairs", "entities"):
            told[what] = dict(zip(("precision", "recall", "f1"), told[what], strict=True))
        return {"level": audit.LEVEL, **told}


class AuditReview(Review[CandidatePair]):
    """Questions about a grouping of fragments into `entities`, by number, and the answers so far.

    `count` is the number of answers to end with, which those in the file count towards.
    """

    def __init__(
        self,
        fragments: Sequence[Fragment],
        entities: Sequence[Sequence[int]],
        odds: PairOdds,
        file: AnswerFile,
        count: int,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self._fragments, self._file, self._count, self._seed = fragments, file, count, seed
        self._pool = Pool(entities, odds)
        self._sha256 = fingerprint(fragments)
        self._ids = [fragment.id for fragment in fragments]
        self._draw = [self._hash(id) for id in self._ids]
        names = (self._ids_of(entity) for entity in range(len(entities)))
        of_entities = [self._hash(*ids) for ids in names]
        self._order = sorted(range(len(entities)), key=of_entities.__getitem__)
        placed(file.answers, fragments, file.path)  # they are about these fragments
        self._numbers = {id: number for number, id in enumerate(self._ids)}

    def _hash(self, *ids: str) -> bytes:
        text = "\0".join((str(self._seed), *ids)).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=8).digest()

    def _ids_of(self, entity: int) -> list[str]:
        return sorted(self._ids[number] for number in self._pool.of(entity))

    # --- what is known ----------------------------------------------------------------------------

    def _known_pairs(self) -> PairAnswers:
        said = [a for a in self._file.answers if a.asked.how == SAMPLED and a.same is not None]
        alike = Counter(answer.asked.share for answer in said)
        at = [self._pool.stratum(self._numbers[a.a], self._numbers[a.b]) for a in said]
        return PairAnswers.weighted(
            self._pool.strata,
            np.array(at, np.int64),
            np.array([answer.same for answer in said], np.bool_),
            np.array([1 / (a.asked.share * alike[a.asked.share]) for a in said]),
        )

    def _name(self, test: _Test) -> tuple[str, frozenset[int], str]:
        how, a, b = test
        return how, frozenset((a, b)), self._shown(how, a)

    def _shown(self, how: str, a: int) -> str:
        """The fingerprint of what a question is about."""
        if how != WHOLE:
            return self._sha256
        ids = "\0".join(self._ids_of(int(self._pool.entity[a])))
        return hashlib.sha256(ids.encode("utf-8", "surrogatepass")).hexdigest()

    def _tests(self, entity: int) -> Generator[_Test, bool, _Examined]:
        """The questions about an entity; answers are sent."""
        pool = self._pool

        def drawn(numbers: IntArray) -> list[int]:
            return sorted(map(int, numbers), key=self._draw.__getitem__)

        x, *others = drawn(pool.of(entity))
        size, own, outside = len(others) + 1, 1.0, 0.0
        if others:
            if (yield WHOLE, x, others[0]):
                own = size
            elif size > _FOLLOWING:
                said = 0
                for other in others[:_FOLLOWING]:
                    said += yield ENTITY, x, other
                own = 1 + (size - 1) * said / _FOLLOWING
        for cell in pool.near(entity):
            y = drawn(pool.in_cell(cell))[0]
            if (yield ENTITY, x, y):
                rest = [z for z in drawn(pool.of(pool.entity_of[cell])) if z != y]
                outside += 1
                if rest and (yield ENTITY, x, rest[0]):
                    outside += len(rest)
        return own == size and not outside, size / (own + outside)

    def _examine(self) -> tuple[_Test | None, bool, list[_Examined]]:
        """The next question about an entity, whether it is begun, and the entities examined."""
        known: dict[tuple[str, frozenset[int], str], bool | None] = {
            (
                a.asked.how,
                frozenset((self._numbers[a.a], self._numbers[a.b])),
                a.fragments_sha256,
            ): (a.same)
            for a in self._file.answers
            if a.asked.how in (WHOLE, ENTITY)
        }
        done: list[_Examined] = []
        for entity in self._order:
            asking = self._tests(entity)
            begun = False
            try:
                test = next(asking)
                while (name := self._name(test)) in known:
                    begun = True
                    if (same := known[name]) is None:
                        break  # nobody knows
                    test = asking.send(same)
                else:
                    return test, begun, done
            except StopIteration as ended:
                done.append(ended.value)
        return None, False, done

    # --- asking -----------------------------------------------------------------------------------

    def _rng(self, what: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, len(self._file.answers), what])

    @property
    def left(self) -> int:
        """The number of answers that are still wanted."""
        counts = self._counts()
        return max(self._count - counts[True] - counts[False], 0)

    def _counts(self) -> Counter[bool]:
        """The number of answers about entities (True) and about sampled pairs."""
        hows = [answer.asked.how for answer in self._file.answers]
        return Counter(how != SAMPLED for how in hows if how in _OF_AN_AUDIT)

    def question(self) -> Evidence[CandidatePair] | None:
        if not (left := self.left):
            return None
        counts = self._counts()
        test, begun, _ = self._examine()
        turn = begun if left <= _LONGEST else counts[True] < counts[False]
        if test is not None and turn:
            return self._evidence(*test, 1 / len(self._order))
        drawn = self._drawn()
        if drawn is not None:
            return drawn
        return None if test is None else self._evidence(*test, 1 / len(self._order))

    def _drawn(self) -> Evidence[CandidatePair] | None:
        """A pair of the stratum that is worth most."""
        strata, known, rng = self._pool.strata, self._known_pairs(), self._rng(0)
        stratum = audit.next_stratum(strata, known, audit.posterior(strata, known, rng), rng)
        taken = {
            frozenset((self._numbers[a.a], self._numbers[a.b]))
            for a in self._file.answers
            if a.asked.how == SAMPLED
        }
        pair = None if stratum < 0 else self._pool.draw(stratum, rng, taken)
        if pair is None:
            return None
        return self._evidence(SAMPLED, *pair, 1 / float(strata.sizes[stratum]))

    def _evidence(self, how: str, a: int, b: int, share: float) -> Evidence[CandidatePair]:
        joined = float(self._pool.entity[a] == self._pool.entity[b])

        def side(number: int, beside: bool) -> Side:
            members = self._pool.of(int(self._pool.entity[number]))
            most = _MOST_SHOWN if how == WHOLE else MOST_OTHERS
            others = [int(m) for m in members if m not in (a, b)][: most * beside]
            return Side(
                self._fragments[number],
                tuple(self._fragments[other] for other in others),
                len(members) if beside else 1,
            )

        asked = QuestionDetails(len(self._file.answers) + 1, how, joined, share)
        apart = how == ENTITY and not joined
        return Evidence(
            CandidatePair(a, b, how, joined, share),
            side(a, apart),
            side(b, how == WHOLE or apart),
            asked=asked,
        )

    def _keep(self, evidence: Evidence[CandidatePair], same: bool | None, by: str | None) -> None:
        pair, asked = evidence.question, evidence.asked
        assert asked is not None
        a, b = evidence.first.fragment.id, evidence.second.fragment.id
        self._file.append(Answer(a, b, same, asked, self._shown(pair.how, pair.first), by))

    def _take_back(self, same: bool | None) -> None:
        self._file.undo()

    def report(self) -> AuditReport:
        """The estimates by the answers so far."""
        strata, known, rng = self._pool.strata, self._known_pairs(), self._rng(1)
        rates = audit.posterior(strata, known, rng)
        _, _, done = self._examine()
        answers = [a for a in self._file.answers if a.asked.how in _OF_AN_AUDIT]
        right, share = (np.array([one[k] for one in done]) for k in (0, 1))
        return AuditReport(
            audit.of_pairs(strata, known, rates, rng),
            audit.of_entities(right.astype(np.bool_), share, rng),
            sum(a.asked.how == SAMPLED and a.same is not None for a in answers),
            sum(a.asked.how != SAMPLED for a in answers),
            len(done),
            sum(a.same is None for a in answers),
        )
