"""A black box as a step sees it: asked for L of whole sets, each distinct content once.

The scores are in a cache keyed by content (`ScoreCache`). A surrogate, if there is one, ranks the
putative particles first, so that only the best M are asked (split-SMC paper, appendix C.1).

A cache remembers what it was asked, and the likelihood would say the same again: so the sets of
fragments that are yet to come may be scored ahead (`kbforge.clustering.ahead`), and change nothing
that counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kbforge.clustering.online.bounds import Bounds
from kbforge.clustering.online.candidates import Candidates, families_of, keys_of
from kbforge.clustering.online.lineage import Lineage
from kbforge.clustering.online.pool import Pool, Scores
from kbforge.clustering.online.propose import propose_joins
from kbforge.clustering.online.scorer import Scorer
from kbforge.clustering.online.table import Made, Reading, Regrouped, Table
from kbforge.clustering.state import NewClusters, State
from kbforge.contracts import Cluster, FloatArray, Fragment, IntArray, Likelihood
from kbforge.models.score_cache import Key, ScoreCache
from kbforge.numerics.logs import on_grid


class Coming(NamedTuple):
    """What a step would ask for.

    Attributes:
        unknown: the sets that have not been scored, by content.
        owners: of each cluster that the fragment is proposed to, the subproblem's name.
        likely: names of the subproblems that the fragment will change, as far as one can tell.
        keys: of the fragment in the index, those that are followed.

    """

    unknown: Mapping[Key, Sequence[Fragment]]
    owners: Sequence[int]
    likely: frozenset[int]
    keys: frozenset[int]


class BlackBoxScorer:
    """Scores whole sets, each distinct content once; a surrogate may rank first."""

    def __init__(
        self,
        likelihood: Likelihood,
        limit: int | None,
        surrogate: Table | None,
        candidates: Candidates | None,
    ) -> None:
        self.limit = limit
        self.fragments: dict[int, Fragment] = {}
        self.table, self.candidates = surrogate, candidates
        self._cache = ScoreCache.of(likelihood)
        self._numbers: dict[int, int] = {}  # in the cache, of the contents of `fragments`
        self._asked: set[Key] = set()
        # sets asked for that had a fragment of which no equal is left here
        self.forgotten = 0
        self._joined: FloatArray = np.zeros(0)

    @property
    def evaluations(self) -> int:
        return self.forgotten + len(self._asked)

    def read(self, state: State, x: Fragment, only: IntArray | None = None) -> Reading:
        reading = self._shown(state, x, only)
        if self.table is None:
            slots = reading.scores.slots
            assert slots is not None
            joined = self._score_joins(state, reading, slots)
            reading.scores.log_predictive[slots] = joined - state.score[slots]
        return reading

    def coming(self, state: State, x: Fragment, bounds: Bounds | None = None) -> Coming:
        """What a step with x would ask for on this state. May raise; nothing changes that counts.

        Args:
            state: before x, or before some fragments that come before x.
            x: the fragment.
            bounds: where constraints let x go; None is anywhere.

        """
        reading = self._shown(state, x, None if bounds is None else bounds.only)
        scores = reading.scores
        if self.table is None:
            assert scores.slots is not None
            slots, first = scores.slots, None
        else:
            scores = scores if bounds is None else bounds.within(state, scores)
            joins = propose_joins(state, scores, self.limit)
            slots = np.unique(joins.slot)
            first = joins.subproblem[joins.value.argmax()] if len(joins) else None
        owners = state.owner[slots].tolist()
        return Coming(
            unknown=self._unknown(reading, [*map(state.members, slots.tolist()), ()])[1],
            owners=owners,
            likely=frozenset(owners if first is None else (int(first),)),
            keys=frozenset(reading.reached.open if reading.reached else ()),
        )

    def learn(self, unknown: Mapping[Key, Sequence[Fragment]]) -> None:
        """Have sets scored ahead, by content; they count once a step asks for them. May raise."""
        self._cache.learn(unknown)

    def known(self, keys: Iterable[Key]) -> list[Key]:
        """The sets among these that have been scored."""
        return [key for key in keys if key in self._cache]

    def _shown(self, state: State, x: Fragment, only: IntArray | None) -> Reading:
        """What is known of x before the likelihood is asked."""
        if len(self._joined) < state.n_slots:
            self._joined = np.zeros(2 * state.n_slots)
        number = self._cache.number(x)
        if self.table is not None:
            by_table = self.table.read(state, x, only)
            return by_table._replace(joined=self._joined, number=number, asked=[])
        reached = None
        if self.candidates is not None:
            reached = self.candidates.look_up(x, state.in_heaviest)
        if only is not None:
            slots = only
        elif reached is not None:
            slots = reached.slots
        else:
            slots = np.flatnonzero(state.reach[: state.n_slots] > -np.inf)
        scores = Scores(np.full(state.n_slots, -np.inf), slots)
        return Reading(x, scores, None, None, reached, self._joined, number, [])

    def reweigh(self, state: State, reading: Reading, joins: Pool) -> Pool:
        if self.table is None:
            return joins
        self._score_joins(state, reading, np.unique(joins.slot))
        # what the surrogate ranked must not decide between equals of the model
        joins = joins.take(np.lexsort((state.first[joins.slot], joins.row, joins.subproblem)))
        gain = reading.joined[joins.slot] - state.score[joins.slot]
        row = state.row_start[joins.subproblem] + joins.row
        prior = state.row_weight[row] + state.log_size[joins.slot]
        return joins.with_value(prior + on_grid(gain))

    def log_marginal_new(self, reading: Reading) -> float:
        return float(self._score(reading, [()])[0])

    def log_marginal_joined(self, state: State, reading: Reading, parents: IntArray) -> FloatArray:
        return reading.joined[parents]

    def extend(self, number: int, reading: Reading, new: NewClusters) -> None:
        self.fragments[number] = reading.fragment
        self._numbers[number] = reading.number
        self._asked.update(reading.asked or ())
        if self.table is not None:
            self.table.extend(reading, new)
        elif self.candidates is not None and reading.reached is not None:
            self.candidates.extend(reading.reached, new.first, new.slots)

    def release(self, slots: IntArray) -> None:
        if self.table is not None:
            self.table.release(slots)
        elif self.candidates is not None:
            self.candidates.release(slots)

    def make(
        self, new: Mapping[int, Cluster], slots: int, afresh: Mapping[int, Cluster] | None = None
    ) -> Made:
        keys = dict(zip(new, self._scored(list(new.values())), strict=True))
        scores = dict(zip(keys, self._cache.recall(keys.values()).tolist(), strict=True))
        live = None
        if self.table is not None:
            live = self.table.make(self.fragments, new, slots, afresh).live
        return Made(scores, live, tuple(keys.values()))

    def unmake(self, made: Made) -> None:
        if self.table is not None:
            self.table.unmake(made)

    def settle(self, regrouped: Regrouped) -> None:
        self._asked.update(regrouped.made.asked)
        if self.table is not None:
            self.table.settle(regrouped)
        elif self.candidates is not None:
            self.candidates.settle(regrouped.before, regrouped.clusters, regrouped.keys)
        self.forget(regrouped.removed)

    def forget(self, numbers: Iterable[int]) -> None:
        gone = {self._numbers.pop(number): self.fragments.pop(number) for number in numbers}
        for number in gone.keys() & set(self._numbers.values()):
            del gone[number]
        if gone:
            left = {key for key in self._asked if gone.keys().isdisjoint(key)}
            self.forgotten += len(self._asked) - len(left)
            self._asked = left
            for fragment in gone.values():
                self._cache.forget(fragment)

    def count(self, other: Scorer | Reading) -> None:
        if isinstance(other, Reading):
            self._asked.update(other.asked or ())
            return
        assert isinstance(other, BlackBoxScorer)
        assert other._cache is self._cache, "numbers of contents are those of one cache"
        self._asked |= other._asked

    def score(self, clusters: Sequence[Cluster]) -> FloatArray:
        made = self._scored(clusters)
        self._asked.update(made)
        return self._cache.recall(made)

    def keys(self, fragments: Sequence[int]) -> dict[int, Sequence[int]]:
        return keys_of(self.candidates, self.fragments, fragments)

    def scores_asked(self) -> dict[tuple[int, ...], float]:
        """The sets asked for and their L, each by fragments with its contents."""
        of_number: dict[int, int] = {}
        for fragment, number in sorted(self._numbers.items()):
            of_number.setdefault(number, fragment)
        keys = list(self._asked)
        scores = self._cache.recall(keys).tolist()
        by_fragments = {
            tuple(sorted(of_number[number] for number in key)): score
            for key, score in zip(keys, scores, strict=True)
        }
        return dict(sorted(by_fragments.items()))

    def remember(self, asked: Mapping[Cluster, float]) -> None:
        """Sets of held fragments have been asked for and counted before; by set, their L."""
        scores = {
            tuple(sorted(self._numbers[i] for i in members)): score
            for members, score in asked.items()
        }
        self._cache.remember(scores)
        known = len(self._asked)
        self._asked.update(scores)
        self.forgotten -= len(self._asked) - known

    def resume(self, evaluations: int) -> None:
        self.forgotten = evaluations

    def hold(
        self,
        fragments: Mapping[int, Fragment],
        lineage: Lineage,
        clusters: Mapping[int, Cluster],
        scores: Sequence[float],
    ) -> None:
        if self.table is not None:
            self.table.hold(fragments, lineage, families_of(clusters))
        elif self.candidates is not None:
            self.candidates.hold(families_of(clusters))
        self.fragments.update(fragments)
        self._numbers.update((i, self._cache.number(x)) for i, x in fragments.items())
        self.remember(dict(zip(clusters.values(), scores, strict=True)))

    def _scored(self, clusters: Sequence[Cluster]) -> list[Key]:
        """Have clusters of held fragments scored; returns their contents."""
        keys = [tuple(sorted(self._numbers[i] for i in cluster)) for cluster in clusters]
        unknown = {
            key: [self.fragments[i] for i in cluster]
            for key, cluster in zip(keys, clusters, strict=True)
            if key not in self._cache
        }
        self._cache.learn(unknown)
        return keys

    def _score_joins(self, state: State, reading: Reading, slots: IntArray) -> FloatArray:
        """L(C + x) of clusters; the new fragment's own set is scored in the same batch."""
        scores = self._score(reading, [*map(state.members, slots.tolist()), ()])[:-1]
        reading.joined[slots] = scores
        return scores

    def _score(self, reading: Reading, sets: Sequence[tuple[int, ...]]) -> FloatArray:
        """L of sets of fragments, each with x, nats, shape [len(sets)]; errors as `ScoreCache`."""
        keys, unknown = self._unknown(reading, sets)
        self._cache.learn(unknown)
        if reading.asked is not None:
            reading.asked.extend(keys)
        return self._cache.recall(keys)

    def _unknown(
        self, reading: Reading, sets: Sequence[tuple[int, ...]]
    ) -> tuple[list[Key], dict[Key, Sequence[Fragment]]]:
        """Sets of fragments, each with x, by content, and those that have not been scored."""
        numbers, x = self._numbers, reading.number
        keys = [tuple(sorted([*(numbers[i] for i in members), x])) for members in sets]
        return keys, {
            key: [*(self.fragments[i] for i in members), reading.fragment]
            for key, members in zip(keys, sets, strict=True)
            if key not in self._cache
        }
