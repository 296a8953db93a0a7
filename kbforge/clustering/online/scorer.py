"""The likelihood in a step: the questions and updates that every scorer answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from kbforge.clustering.online.bounds import Bounds
from kbforge.clustering.online.lineage import Lineage
from kbforge.clustering.online.pool import Pool
from kbforge.clustering.online.table import Made, Reading, Regrouping
from kbforge.clustering.state import NewClusters, State
from kbforge.contracts import Cluster, FloatArray, Fragment, IntArray


class Scorer(Protocol):
    """The likelihood as a step sees it. Values in nats.

    Attributes:
        limit: how many joins the proposal keeps for `reweigh`, None for all.
        fragments: those that the session holds, by number; ascending, if it holds all.

    """

    limit: int | None
    fragments: dict[int, Fragment]

    @property
    def evaluations(self) -> int:
        """Sets the likelihood has scored: distinct ones, or for a live table clusters made."""
        ...

    def read(self, state: State, x: Fragment, bounds: Bounds | None = None) -> Reading:
        """Turn to the next fragment. May raise; nothing changes that counts.

        Args:
            state: before x.
            x: the fragment.
            bounds: where x may go; None is anywhere, as far as an index leads there.

        """
        ...

    def reweigh(self, state: State, reading: Reading, joins: Pool) -> Pool:
        """The proposed joins with the likelihood's own weights. May raise."""
        ...

    def log_marginal_new(self, reading: Reading) -> float:
        """L({x}) of the fragment that was read. May raise."""
        ...

    def log_marginal_joined(self, state: State, reading: Reading, parents: IntArray) -> FloatArray:
        """L(C + x) of clusters that `reweigh` let through, shape [len(parents)]; known by then."""
        ...

    def extend(self, number: int, reading: Reading, new: NewClusters) -> None:
        """The fragment is taken in, and these clusters hold it. Cannot fail."""
        ...

    def release(self, slots: IntArray) -> None:
        """These clusters no longer exist. Cannot fail."""
        ...

    def make(
        self, new: Mapping[int, Cluster], slots: int, afresh: Mapping[int, Cluster] | None = None
    ) -> Made:
        """Make clusters of held fragments. May raise; nothing changes that counts.

        Args:
            new: by slot, those whose L is asked for; no live cluster has such a slot.
            slots: how many slots are numbered without the new ones.
            afresh: None, or all clusters that will be, the new ones among them, to be held by a
                table that never saw any other.

        """
        ...

    def unmake(self, made: Made) -> None:
        """Forget them again. Cannot fail."""
        ...

    def settle(self, regrouped: Regrouping) -> None:
        """This is how some fragments are grouped now. Cannot fail."""
        ...

    def forget(self, numbers: Iterable[int]) -> None:
        """These fragments are held no more; no cluster has any of them. Cannot fail."""
        ...

    def count(self, other: Scorer | Reading) -> None:
        """What another scorer of the same problem was asked, or for a reading, counts here, too."""
        ...

    def score(self, clusters: Sequence[Cluster]) -> FloatArray:
        """L of clusters of held fragments, which counts; shape [len(clusters)]. May raise."""
        ...

    def resume(self, evaluations: int) -> None:
        """Count on from there."""
        ...

    def hold(
        self,
        fragments: Mapping[int, Fragment],
        lineage: Lineage,
        clusters: Mapping[int, Cluster],
        scores: Sequence[float],
    ) -> None:
        """Hold fragments and clusters of them, too, as the run had made them. May raise.

        Args:
            fragments: by number, ascending.
            lineage: of the clusters.
            clusters: by slot.
            scores: their L, nats.

        """
        ...

    def keys(self, fragments: Sequence[int]) -> dict[int, Sequence[int]]:
        """The keys of held fragments in the index; of none, if there is none. May raise.

        It is known from then on where they lead.
        """
        ...
