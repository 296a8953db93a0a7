"""Live clusters of a run, for three kinds of likelihoods.

The first kind has clusters in the kernel, the second in Python, which is called between the
run's steps. The first fragment that they encode determines what both read; they are filled again
along the lineage of clusters, to the same bits. The third kind, a black box, has no table: it
scores whole sets, namely those that a surrogate's table proposes, if there is one (split-SMC paper,
appendix C.1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.compiled import CompiledRun, EncodedBatch
from kbforge.clustering.constraints import keys_of_values
from kbforge.clustering.scoring import FragmentsByNumber, Key, SessionScores, StepDemand
from kbforge.contracts import (
    CandidateIndex,
    Cluster,
    ConjugateLikelihood,
    Constraints,
    FloatArray,
    Fragment,
    IntArray,
    LiveClusters,
    Observation,
    StepResult,
    SubproblemData,
)
from kbforge.errors import LikelihoodError
from kbforge.kernel.binding import EncodedFragments, KernelClusters, MergingClusters, address
from kbforge.numerics import capacity_for, end_to_end, grown

FragmentSource: TypeAlias = Callable[[], FragmentsByNumber]
"""Returns fragments by number."""
_NOTHING: IntArray = np.zeros(0, dtype=np.int64)


class Rivals(NamedTuple):
    """Other clusters of heaviest particles that a fragment could belong to.

    `slots` are ascending, `weights` log|C| + L(C + x) - L(C), and `alone` approximates L({x}),
    nats; None if it is not known yet.
    """

    slots: IntArray
    weights: FloatArray
    alone: float | None


class ClusterScorer(ABC):
    """A session's interface to the likelihood of its clusters, for all three kinds.

    `compiled` is the kernel's own table; `asked` has the sets that a black box scored for the last
    step.
    """

    compiled: KernelClusters | None = None
    asked: Sequence[Key] = ()
    sets: SessionScores | None = None
    _run: CompiledRun

    @property
    @abstractmethod
    def evaluations(self) -> int:
        """The number of scored sets: distinct ones or, for a live table, clusters made."""

    @abstractmethod
    def read(self, fragments: Sequence[Fragment]) -> EncodedBatch:
        """Prepare fragments to be added in order."""

    @abstractmethod
    def add(
        self, fragments: Sequence[Fragment], records: EncodedBatch, k: int, apart: bool = False
    ) -> StepResult | None:
        """Add the k-th fragment; None, and no change, if its keys lead to what is not in memory.

        `apart` gives it its own subproblem, even if it could join another.

        Raises:
            InfeasibleFragment: constraints leave it no place.
            LikelihoodError: as a session's `add`, without the fragment's name.
        """

    def rivals(
        self, number: int, fragment: Fragment, records: EncodedBatch, k: int, lone: bool
    ) -> Rivals | None:
        """Other places for an added fragment; None if its keys lead to what is not in memory.

        `lone` says whether a fragment alone in its cluster can have other places.
        """
        found = self._run.rivals(number, records.keys_of(k), lone)
        if found is None:
            return None
        slots, log_size, _ = found
        gains, alone = self._gains(fragment, records, k, slots) if len(slots) else (0.0, None)
        return Rivals(slots, log_size + gains, alone)

    def _gains(
        self, fragment: Fragment, records: EncodedBatch, k: int, slots: IntArray
    ) -> tuple[FloatArray, float | None]:
        """L(C + x) - L(C) of some clusters, and L({x}) if it is known, nats."""
        raise NotImplementedError

    def merge_ratios(self, slot: int, others: IntArray) -> FloatArray | None:
        """L(C + D) - L(C) - L(D) of a cluster and others, to 1e-8 nats; None if it is not known."""
        return None

    @abstractmethod
    def count(self, evaluations: int) -> None:
        """Count more sets as scored, if sets are counted one by one."""

    @abstractmethod
    def count_run(self, other: ClusterScorer) -> None:
        """Count sets that another run with the same spec scored."""

    @abstractmethod
    def score(self, clusters: Sequence[Cluster]) -> FloatArray:
        """L of clusters of fragments in memory, nats; the sets count. May raise."""

    @abstractmethod
    def make(
        self, new: Mapping[int, Cluster], others: Mapping[int, Cluster] | None = None
    ) -> dict[int, float]:
        """L by slot, nats, of new clusters of fragments in memory; `others` are kept, too.

        If an error is raised, nothing has changed. The result counts once the clusters are adopted.
        """

    @abstractmethod
    def adopt(self, new: Mapping[int, Cluster], gone: Mapping[int, Fragment]) -> None:
        """Adopt new clusters, and drop the removed fragments."""

    @abstractmethod
    def show(self, first: Fragment) -> None:
        """Behave as if this fragment had been encoded first. May raise."""

    @abstractmethod
    def hold(self, pages: Sequence[SubproblemData], fragments: Mapping[int, Fragment]) -> None:
        """Add the clusters of subproblems. If an error is raised, nothing has changed."""

    @abstractmethod
    def release(self, slots: IntArray) -> None:
        """Drop these clusters."""


class ConjugateTable(ClusterScorer):
    """Sufficient statistics; L of sets comes from the likelihood."""

    def __init__(
        self,
        run: CompiledRun,
        likelihood: ConjugateLikelihood,
        held: FragmentSource,
        index: CandidateIndex | None,
    ) -> None:
        self._run, self._likelihood, self._held, self._index = run, likelihood, held, index

    @abstractmethod
    def predictive(self, x: Fragment, records: EncodedBatch, k: int, slots: IntArray) -> FloatArray:
        """L(C + x) - L(C) of clusters and a fragment, the k-th of the records, nats."""

    @abstractmethod
    def follow(
        self,
        records: EncodedBatch,
        k: int,
        parents: IntArray,
        children: IntArray,
        dropped: IntArray,
    ) -> None:
        """Record that the fragment scored last was added, which made new clusters. Cannot fail."""

    @property
    def evaluations(self) -> int:
        return self._run.totals().evaluations

    def count(self, evaluations: int) -> None:
        self._run.count(evaluations)

    def count_run(self, other: ClusterScorer) -> None:
        self.count(other.evaluations)

    def score(self, clusters: Sequence[Cluster]) -> FloatArray:
        self.count(len(clusters))
        held = self._held()
        sets = [[x for n in cluster if (x := held[n]) is not None] for cluster in clusters]
        return self._likelihood.log_marginal(sets)

    def make(
        self, new: Mapping[int, Cluster], others: Mapping[int, Cluster] | None = None
    ) -> dict[int, float]:
        clusters = {**new, **(others or {})}
        if not clusters:
            return {}
        scores = self._filled(clusters)
        for slot in new:
            if np.isnan(scores[slot]) or scores[slot] == np.inf:
                self.release(np.array(sorted(clusters), dtype=np.int64))
                raise LikelihoodError(f"the likelihood of a cluster is {scores[slot]}")
        return {slot: scores[slot] for slot in new}

    @abstractmethod
    def _filled(self, clusters: Mapping[int, Cluster]) -> dict[int, float]:
        """Add clusters, by slot; returns their L."""

    def _members(self, clusters: Collection[Cluster]) -> dict[int, Fragment]:
        """The fragments of clusters by number, ascending."""
        held = self._held()
        numbers = sorted({number for cluster in clusters for number in cluster})
        return {n: x for n in numbers if (x := held[n]) is not None}

    def adopt(self, new: Mapping[int, Cluster], gone: Mapping[int, Fragment]) -> None:
        self.count(len(new))


class KernelTable(ConjugateTable):
    """A table in the kernel, empty at first."""

    compiled: KernelClusters

    def __init__(
        self,
        run: CompiledRun,
        compiled: KernelClusters,
        likelihood: ConjugateLikelihood,
        held: FragmentSource,
        index: CandidateIndex | None,
    ) -> None:
        super().__init__(run, likelihood, held, index)
        self.compiled = compiled

    def read(self, fragments: Sequence[Fragment]) -> EncodedBatch:
        starts, keys = keys_of(self._index, fragments)
        return EncodedBatch(self._told(fragments), starts, keys)

    def _told(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        encoded = self.compiled.read(fragments)
        self.compiled.tell(encoded)
        return encoded

    def add(
        self, fragments: Sequence[Fragment], records: EncodedBatch, k: int, apart: bool = False
    ) -> StepResult | None:
        if apart:
            return self._add_apart(fragments, records, k)
        steps, refusal = self._run.add(self.compiled, records, k, k + 1)
        if refusal is not None:
            raise refusal
        return steps[0] if steps else None

    def _add_apart(
        self, fragments: Sequence[Fragment], records: EncodedBatch, k: int
    ) -> StepResult | None:
        run = self._run
        if run.look_up(run.n_numbers, records.keys_of(k)) is None:
            return None
        alone = float(self.predictive(fragments[k], records, k, _NOTHING)[0])
        step, parents, children = run.take_in(np.zeros(0), alone, apart=True)
        self.follow(records, k, parents, children, _NOTHING)
        return step

    def rivals(
        self, number: int, fragment: Fragment, records: EncodedBatch, k: int, lone: bool
    ) -> Rivals | None:
        found = self._run.rivals(
            number, records.keys_of(k), lone, self.compiled.handle, records.at(k)[:3]
        )
        return None if found is None else Rivals(*found)

    def merge_ratios(self, slot: int, others: IntArray) -> FloatArray | None:
        if not isinstance(self.compiled, MergingClusters):
            return None
        return self.compiled.log_merge_ratio_of(slot, others)

    def predictive(self, x: Fragment, records: EncodedBatch, k: int, slots: IntArray) -> FloatArray:
        """L({x}) without any clusters, shape [1]."""
        return self.compiled.predictive_at(records.at(k)[:3], slots)

    def follow(
        self,
        records: EncodedBatch,
        k: int,
        parents: IntArray,
        children: IntArray,
        dropped: IntArray,
    ) -> None:
        record = records.at(k)[:3]
        told = (len(parents), address(parents), address(children))
        self.compiled.kernel.kb_extend(self.compiled.handle, *record, *told, 1)
        self.release(dropped)

    def show(self, first: Fragment) -> None:
        self._replay(_NOTHING, _NOTHING, _NOTHING, {0: first}, None)

    def hold(self, pages: Sequence[SubproblemData], fragments: Mapping[int, Fragment]) -> None:
        self._replay(
            np.concatenate([page.slots for page in pages]),
            np.concatenate([page.lengths for page in pages]),
            np.concatenate([page.members for page in pages]),
            fragments,
            None,
        )

    def _filled(self, clusters: Mapping[int, Cluster]) -> dict[int, float]:
        scores, held = np.empty(len(clusters)), clusters.values()
        self._replay(
            np.array(list(clusters), dtype=np.int64),
            np.array([len(cluster) for cluster in held], dtype=np.int64),
            np.array([number for cluster in held for number in cluster], dtype=np.int64),
            self._members(held),
            scores,
        )
        return dict(zip(clusters, scores.tolist(), strict=True))

    def _replay(
        self,
        slots: IntArray,
        lengths: IntArray,
        members: IntArray,
        fragments: Mapping[int, Fragment],
        scores: FloatArray | None,
    ) -> None:
        """Fill the table with clusters, by lengths and members; returns their L if `scores`."""
        encoded = self._told(list(fragments.values()))
        numbers = np.array(list(fragments), dtype=np.int64)
        records: tuple[NDArray[Any], ...] = encoded.starts, encoded.attributes, encoded.values
        self.compiled.kernel.kb_replay(
            *(self._run.handle, self.compiled.handle),
            *(len(slots), address(slots), address(lengths), address(members)),
            *(len(numbers), address(numbers), *map(address, records)),
            None if scores is None else address(scores),
        )

    def release(self, slots: IntArray) -> None:
        if len(slots):
            self.compiled.kernel.kb_release(self.compiled.handle, len(slots), address(slots))


class PythonTable(ConjugateTable):
    """A table in Python."""

    live: LiveClusters | None = None
    _shown: LiveClusters | None = None  # the table that a fragment was shown last
    _seen: Observation = None  # what it made of that

    def read(self, fragments: Sequence[Fragment]) -> EncodedBatch:
        return keys_alone(self._index, fragments)

    def add(
        self, fragments: Sequence[Fragment], records: EncodedBatch, k: int, apart: bool = False
    ) -> StepResult | None:
        run = self._run
        self._show(fragments[k])
        slots = run.look_up(run.n_numbers, records.keys_of(k))
        if slots is None:
            return None
        predictive = np.zeros(0) if apart else self._predictive(slots)
        assert self._shown is not None
        alone = self._shown.log_predictive_new(self._seen)
        step, parents, children = run.take_in(predictive, alone, apart=apart)
        self.follow(records, k, parents, children, run.dropped())
        return step

    def predictive(self, x: Fragment, records: EncodedBatch, k: int, slots: IntArray) -> FloatArray:
        self._show(x)
        return self._predictive(slots)

    def _show(self, x: Fragment) -> None:
        # the first one to stay keeps its table
        self._shown = self.live or self._new()
        self._seen = self._shown.encode(x)

    def _predictive(self, slots: IntArray) -> FloatArray:
        assert self._shown is not None
        if self._index is None:
            return self._shown.log_predictive(self._seen, self._run.n_slots)[slots]
        return self._shown.log_predictive_of(self._seen, slots)

    def follow(
        self,
        records: EncodedBatch,
        k: int,
        parents: IntArray,
        children: IntArray,
        dropped: IntArray,
    ) -> None:
        live = self.live = self._shown
        assert live is not None
        live.extend(self._seen, parents, children)
        if len(dropped):
            live.release(dropped)

    def _gains(
        self, fragment: Fragment, records: EncodedBatch, k: int, slots: IntArray
    ) -> tuple[FloatArray, float | None]:
        assert self.live is not None
        seen = self.live.encode(fragment)
        return self.live.log_predictive_of(seen, slots), self.live.log_predictive_new(seen)

    def show(self, first: Fragment) -> None:
        live = self._new()
        live.encode(first)
        self.live = live

    def hold(self, pages: Sequence[SubproblemData], fragments: Mapping[int, Fragment]) -> None:
        clusters = {slot: c for page in pages for slot, c in page.clusters().items()}
        self._replayed(clusters, fragments, scored=False)

    def _filled(self, clusters: Mapping[int, Cluster]) -> dict[int, float]:
        return self._replayed(clusters, self._members(clusters.values()), scored=True)

    def _replayed(
        self, clusters: Mapping[int, Cluster], fragments: Mapping[int, Fragment], scored: bool
    ) -> dict[int, float]:
        live = self.live or self._new()
        scores = replay(
            live, clusters, fragments, max(self._run.n_slots, max(clusters) + 1), scored
        )
        self.live = live
        return scores

    def release(self, slots: IntArray) -> None:
        if self.live is not None and len(slots):
            self.live.release(slots)

    def _new(self) -> LiveClusters:
        return CompactTable(self._likelihood.live_clusters())


class BlackBoxTable(ClusterScorer):
    """A black box that scores sets, possibly those that a surrogate's table proposes."""

    sets: SessionScores

    def __init__(
        self,
        run: CompiledRun,
        sets: SessionScores,
        held: FragmentSource,
        index: CandidateIndex | None,
        surrogate: ConjugateTable | None,
        limit: int | None,
    ) -> None:
        self._run, self.sets, self._held, self._index = run, sets, held, index
        self.surrogate, self._limit = surrogate, limit

    @property
    def evaluations(self) -> int:
        return self.sets.evaluations

    def read(self, fragments: Sequence[Fragment]) -> EncodedBatch:
        if self.surrogate is not None:
            return self.surrogate.read(fragments)
        return keys_alone(self._index, fragments)

    def add(
        self, fragments: Sequence[Fragment], records: EncodedBatch, k: int, apart: bool = False
    ) -> StepResult | None:
        run, sets, x = self._run, self.sets, fragments[k]
        number = sets.cache.number(x)
        found = self._proposed(run.n_numbers, x, records, k)
        if found is None:
            return None
        clusters, scores = run.clusters(_NOTHING if apart else found[0])
        self.asked = sets.scored(self._held(), [*clusters, ()], x, number)
        joined = sets.cache.recall(self.asked)
        fragment = run.n_numbers
        step, parents, children = run.take_in(
            joined[:-1] - scores,
            float(joined[-1]),
            joined,
            proposed=self.surrogate is not None,
            evaluations=sets.evaluations + len(set(self.asked).difference(sets.asked)),
            apart=apart,
        )
        sets.put(fragment, number)
        sets.asked.update(self.asked)
        if self.surrogate is not None:
            self.surrogate.follow(records, k, parents, children, run.dropped())
        return step

    def coming(self, number: int, x: Fragment, records: EncodedBatch) -> StepDemand | None:
        """What a step with a fragment needs; None if its keys lead to what is not in memory."""
        content = self.sets.cache.number(x)
        found = self._proposed(number, x, records, 0)
        if found is None:
            return None
        slots, heaviest = found
        owners = self._run.owners(slots)
        keys = self._run.open_keys() if self._index is not None else ()
        sets = [*self._run.clusters(slots)[0], ()]
        return StepDemand(
            unknown=self.sets.unknown(self._held(), sets, x, content)[1],
            owners=owners,
            likely=frozenset(owners if heaviest is None else (heaviest,)),
            keys=frozenset(keys),
        )

    def _proposed(
        self, number: int, x: Fragment, records: EncodedBatch, k: int
    ) -> tuple[IntArray, int | None] | None:
        """The clusters to score, ascending, and the subproblem of a surrogate's heaviest join.

        None if the keys lead to what is not in memory.
        """
        slots = self._run.look_up(number, records.keys_of(k))
        if slots is None or self.surrogate is None:
            return None if slots is None else (slots, None)
        predictive = self.surrogate.predictive(x, records, k, slots)
        return self._run.propose(predictive[: len(slots)], self._limit)

    def _gains(
        self, fragment: Fragment, records: EncodedBatch, k: int, slots: IntArray
    ) -> tuple[FloatArray, float | None]:
        if self.surrogate is not None:
            return self.surrogate.predictive(fragment, records, k, slots), None
        sets = self.sets
        clusters, scores = self._run.clusters(slots)
        content = sets.cache.number(fragment)
        asked = sets.scored(self._held(), [*clusters, ()], fragment, content)
        sets.asked.update(asked)
        return sets.cache.recall(asked)[:-1] - scores, None

    def count(self, evaluations: int) -> None:
        """Count a set once, when it is first used."""

    def count_run(self, other: ClusterScorer) -> None:
        assert other.sets is not None
        assert other.sets.cache is self.sets.cache, "numbers of contents are those of one cache"
        self.sets.asked |= other.sets.asked

    def score(self, clusters: Sequence[Cluster]) -> FloatArray:
        asked = self.sets.scored(self._held(), clusters)
        self.sets.asked.update(asked)
        return self.sets.cache.recall(asked)

    def make(
        self, new: Mapping[int, Cluster], others: Mapping[int, Cluster] | None = None
    ) -> dict[int, float]:
        asked = self.sets.scored(self._held(), list(new.values()))
        if self.surrogate is not None:
            self.surrogate.make({}, {**new, **(others or {})})
        return dict(zip(new, self.sets.cache.recall(asked).tolist(), strict=True))

    def adopt(self, new: Mapping[int, Cluster], gone: Mapping[int, Fragment]) -> None:
        self.sets.asked.update(self.sets.unknown(self._held(), list(new.values()))[0])
        self.sets.forget(gone)

    def show(self, first: Fragment) -> None:
        if self.surrogate is not None:
            self.surrogate.show(first)

    def hold(self, pages: Sequence[SubproblemData], fragments: Mapping[int, Fragment]) -> None:
        if self.surrogate is not None:
            self.surrogate.hold(pages, fragments)
        self.sets.take_in(fragments)
        for page in pages:
            clusters = page.clusters().values()
            self.sets.remember(dict(zip(clusters, page.scores.tolist(), strict=True)))

    def release(self, slots: IntArray) -> None:
        if self.surrogate is not None:
            self.surrogate.release(slots)


class CompactTable(LiveClusters):
    """See `kbforge.contracts.likelihood`; slots may have gaps."""

    def __init__(self, table: LiveClusters) -> None:
        self._table = table
        self._place: IntArray = np.zeros(0, dtype=np.int64)  # by slot, where the table has it
        self._free: list[int] = []
        self._places = 0

    def encode(self, fragment: Fragment) -> Observation:
        return self._table.encode(fragment)

    def encode_all(self, fragments: Sequence[Fragment]) -> Sequence[Observation]:
        return self._table.encode_all(fragments)

    def log_predictive(self, x: Observation, slots: int) -> FloatArray:
        if not self._places:
            return np.zeros(slots)
        self._reach(slots)
        # a slot that holds nothing has some place or other: what is said of it is not specified
        return self._table.log_predictive(x, self._places)[self._place[:slots]]

    def log_predictive_new(self, x: Observation) -> float:
        return self._table.log_predictive_new(x)

    def log_predictive_of(self, x: Observation, slots: IntArray) -> FloatArray:
        return self._table.log_predictive_of(x, self._place[slots])

    def extend(self, x: Observation, parents: IntArray, children: IntArray) -> None:
        self._reach(int(children.max(initial=-1)) + 1)
        # -1 would be the last slot, and is no one's
        held = np.where(parents >= 0, self._place[parents], -1)
        self._place[children] = places = self._taken(len(children))
        self._table.extend(x, held, places)

    def release(self, slots: IntArray) -> None:
        places = self._place[slots]
        self._table.release(places)
        self._free += places.tolist()

    def _taken(self, count: int) -> IntArray:
        """Places that are no longer free: the latest freed first, then new ones."""
        reused = self._free[: -count - 1 : -1]
        del self._free[len(self._free) - len(reused) :]
        fresh = range(self._places, self._places + count - len(reused))
        self._places += len(fresh)
        return np.array([*reused, *fresh], dtype=np.int64)

    def _reach(self, slots: int) -> None:
        if slots > len(self._place):
            self._place = grown(self._place, capacity_for(slots, len(self._place)))


def replay(
    table: LiveClusters,
    clusters: Mapping[int, Cluster],
    fragments: Mapping[int, Fragment],
    first_free: int,
    scored: bool = False,
) -> dict[int, float]:
    """Extend a table by clusters along their lineage; if `scored`, returns L(C) by slot, nats.

    A cluster grew by its fragments in order of arrival, and clusters with the same beginning share
    it. This makes a tree: each node is a current or former cluster, and its parent is the cluster
    without the newest fragment. A table that is extended along the tree makes the same additions in
    the same order as the run, so it holds the same bits; L is the sum of each fragment's gain.

    Slots may have gaps. The table holds no cluster in these slots and from the `first_free` on,
    which former clusters have until their last child is made. It keeps its clusters, whether or not
    an error is raised.
    """
    parent, born, slot_of = _lineage(clusters)
    node_of = {slot: node for node, slot in slot_of.items()}
    former = [node for node in range(len(parent)) if node not in slot_of]
    slot_of |= {node: slot for slot, node in enumerate(former, first_free)} | {-1: -1}
    children = np.bincount([p for p in parent if p >= 0], minlength=len(parent)).tolist()
    read = dict(zip(fragments, table.encode_all(list(fragments.values())), strict=True))
    scores, held = [0.0] * len(parent), set[int]()
    try:
        for fragment in sorted(born):
            nodes = born[fragment]
            x = read[fragment]
            parents = np.array([slot_of[parent[node]] for node in nodes])
            own = [slot_of[node] for node in nodes]
            if scored:
                gains = _gains_of(table, x, parents).tolist()
                for node, gain in zip(nodes, gains, strict=True):
                    scores[node] = gain + (scores[parent[node]] if parent[node] >= 0 else 0.0)
            table.extend(x, parents, np.array(own))
            held.update(own)
            ended = []
            for before in (parent[node] for node in nodes if parent[node] >= 0):
                children[before] -= 1
                if not children[before] and slot_of[before] not in node_of:
                    ended.append(slot_of[before])
            if ended:
                table.release(np.array(ended))
                held.difference_update(ended)
    except BaseException:
        table.release(np.array(sorted(held), dtype=np.int64))
        raise
    return {slot: scores[node] for slot, node in node_of.items()} if scored else {}


def _lineage(
    clusters: Mapping[int, Cluster],
) -> tuple[list[int], dict[int, list[int]], dict[int, int]]:
    """The parents of nodes, -1 for none; the nodes by newest fragment; the slots of clusters."""
    parent: list[int] = []
    born: dict[int, list[int]] = {}
    known: dict[tuple[int, int], int] = {}
    slot_of: dict[int, int] = {}
    for slot, cluster in clusters.items():
        node = -1
        for fragment in cluster:
            at = known.setdefault((node, fragment), len(parent))
            if at == len(parent):
                parent.append(node)
                born.setdefault(fragment, []).append(at)
            node = at
        slot_of[node] = slot
    return parent, born, slot_of


def _gains_of(table: LiveClusters, x: Observation, parents: np.ndarray) -> FloatArray:
    """L(C + x) - L(C) of the clusters in these slots, L({x}) where a slot is -1."""
    out = np.empty(len(parents))
    opened = parents < 0
    if opened.any():
        out[opened] = table.log_predictive_new(x)
    if not opened.all():
        out[~opened] = table.log_predictive_of(x, parents[~opened])
    return out


def keys_alone(index: CandidateIndex | None, fragments: Sequence[Fragment]) -> EncodedBatch:
    """Fragments of which the run reads only the keys."""
    nothing = np.zeros(0, dtype=np.int32)
    return EncodedBatch(
        EncodedFragments(_NOTHING, nothing, nothing, None), *keys_of(index, fragments)
    )


class RuledIndex(CandidateIndex):
    """An index with a key for each value that makes fragments the same entity by a rule."""

    def __init__(self, index: CandidateIndex, constraints: Constraints) -> None:
        self.index, self.constraints = index, constraints
        self.families, self.shared, self.compared = index.families, index.shared, index.compared

    def keys(self, fragment: Fragment) -> Sequence[int]:
        found: list[int] = self.keys_of((fragment,))[1].tolist()
        return found

    def keys_of(self, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
        starts, keys = self.index.keys_of(fragments)
        if not self.constraints.always:
            return starts, keys
        more, flat = end_to_end([keys_of_values(self.constraints.shared(x)) for x in fragments])
        return starts + more, np.insert(keys, np.repeat(starts[1:], np.diff(more)), flat)


def keys_of(
    index: CandidateIndex | None, fragments: Sequence[Fragment]
) -> tuple[IntArray, IntArray]:
    """The position of each fragment's first key, shape [fragments + 1], and all keys."""
    if index is None:
        return np.zeros(len(fragments) + 1, dtype=np.int64), _NOTHING
    try:
        return index.keys_of(fragments)
    except OverflowError:
        raise LikelihoodError("the index gave a key of more than 64 bits") from None
