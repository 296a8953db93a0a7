"""The live clusters of a run by a black box: L of whole sets, those that a surrogate proposes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kbforge.clustering.compiled.clusters import Rivals, Statistics, keys_alone
from kbforge.clustering.compiled.run import CompiledRun, Records
from kbforge.clustering.online.black_box import FragmentsByNumber, SessionScores, StepDemand
from kbforge.clustering.paging.codec import clusters_of
from kbforge.contracts import (
    CandidateIndex,
    Cluster,
    FloatArray,
    Fragment,
    Info,
    IntArray,
    Page,
)
from kbforge.models.score_cache import Key


class BlackBoxClusters:
    """See `kbforge.clustering.compiled.clusters.Clusters`.

    Args:
        run: that the clusters are of.
        sets: L of sets.
        held: gives the fragments by number.
        index: of the session.
        surrogate: the table that proposes, if there is one.
        limit: how many joins it proposes at most; None is all.

    Attributes:
        asked: the sets that the last step asked for, by content.

    """

    def __init__(
        self,
        run: CompiledRun,
        sets: SessionScores,
        held: Callable[[], FragmentsByNumber],
        index: CandidateIndex | None,
        surrogate: Statistics | None,
        limit: int | None,
    ) -> None:
        self._run, self._sets, self._held, self._index = run, sets, held, index
        self._surrogate, self._limit = surrogate, limit
        self.asked: list[Key] = []

    def read(self, fragments: Sequence[Fragment]) -> Records:
        if self._surrogate is not None:
            return self._surrogate.read(fragments)
        return keys_alone(self._index, fragments)

    def add(self, fragments: Sequence[Fragment], records: Records, k: int) -> Info | None:
        run, sets, x = self._run, self._sets, fragments[k]
        number = sets.cache.number(x)
        found = self._proposed(run.n_numbers, fragments, records, k)
        if found is None:
            return None
        clusters, scores = run.clusters(found[0])
        self.asked = sets.scored(self._held(), [*clusters, ()], x, number)
        joined = sets.cache.recall(self.asked)
        fragment = run.n_numbers
        info, parents, children = run.take_in(
            joined[:-1] - scores,
            float(joined[-1]),
            joined,
            proposed=self._surrogate is not None,
            evaluations=sets.evaluations + len(set(self.asked).difference(sets.asked)),
        )
        sets.put(fragment, number)
        sets.asked.update(self.asked)
        if self._surrogate is not None:
            self._surrogate.follow(records, k, parents, children, run.dropped())
        return info

    def coming(self, number: int, x: Fragment, records: Records) -> StepDemand | None:
        """What a step with a fragment would ask for; None: its keys lead to what lies elsewhere.

        Args:
            number: that the fragment will have.
            x: the fragment.
            records: its own.

        """
        content = self._sets.cache.number(x)
        found = self._proposed(number, (x,), records, 0)
        if found is None:
            return None
        slots, heaviest = found
        owners = self._run.owners(slots)
        keys = self._run.open_keys() if self._index is not None else ()
        sets = [*self._run.clusters(slots)[0], ()]
        return StepDemand(
            unknown=self._sets.unknown(self._held(), sets, x, content)[1],
            owners=owners,
            likely=frozenset(owners if heaviest is None else (heaviest,)),
            keys=frozenset(keys),
        )

    def _proposed(
        self, number: int, fragments: Sequence[Fragment], records: Records, k: int
    ) -> tuple[IntArray, int | None] | None:
        """The clusters to ask about, ascending, and the subproblem of the heaviest join, if a
        surrogate proposes; None: the keys lead to what lies elsewhere.
        """
        slots = self._run.look_up(number, records.keys_of(k))
        if slots is None or self._surrogate is None:
            return None if slots is None else (slots, None)
        predictive = self._surrogate.predictive(fragments, records, k, slots)
        return self._run.propose(predictive, self._limit)

    def rivals(self, number: int, fragment: Fragment, records: Records, k: int) -> Rivals | None:
        found = self._run.rivals(None, number, records, k)
        if found is None:
            return None
        slots, log_size, _ = found
        if not len(slots):
            return Rivals(slots, log_size, None)
        if self._surrogate is not None:
            predictive = self._surrogate.predictive((fragment,), records, k, slots)
            return Rivals(slots, log_size + predictive, None)
        sets = self._sets
        clusters, scores = self._run.clusters(slots)
        content = sets.cache.number(fragment)
        asked = sets.scored(self._held(), [*clusters, ()], fragment, content)
        sets.asked.update(asked)
        return Rivals(slots, log_size + (sets.cache.recall(asked)[:-1] - scores), None)

    def count(self, evaluations: int) -> None:
        """A set counts when it is first asked for, and once."""

    def score(self, clusters: Sequence[Cluster]) -> FloatArray:
        asked = self._sets.scored(self._held(), clusters)
        self._sets.asked.update(asked)
        return self._sets.cache.recall(asked)

    def show(self, first: Fragment) -> None:
        if self._surrogate is not None:
            self._surrogate.show(first)

    def hold(
        self, pages: Sequence[Page], fragments: Mapping[int, Fragment], put: Callable[[], None]
    ) -> None:
        if self._surrogate is None:
            put()
        else:
            self._surrogate.hold(pages, fragments, put)
        self._sets.take_in(fragments)
        for page in pages:
            clusters = clusters_of(page).values()
            self._sets.remember(dict(zip(clusters, page.scores.tolist(), strict=True)))

    def release(self, slots: IntArray) -> None:
        if self._surrogate is not None:
            self._surrogate.release(slots)
