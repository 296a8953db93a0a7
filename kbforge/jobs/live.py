"""A live clustering: it adds fragments at any time and keeps the knowledge base up to date.

    live = open_live(fragments, Choices(alpha=20))   # learns from the fragments, takes in none
    live.add(fragments)
    live.add(more)
    live.knowledge_base().write("kb.jsonl")

Vocabulary, base counts and alpha are fixed when it is opened, by the fragments it is opened with.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kbforge.contracts import Fragment, Info, Session, Snapshot, Touched
from kbforge.errors import UsageError, quoted
from kbforge.fit.choices import Choices
from kbforge.fit.models import Fit
from kbforge.fit.prepare import prepare
from kbforge.jobs.cluster import KnowledgeBase, Times
from kbforge.kb.consensus import consensus


@dataclass(slots=True)
class LiveClustering:
    """A session, the fragments that it has taken in, and what was prepared for it.

    Attributes:
        session: for what is not here, such as `snapshot`.
        prepared: alpha, the confidence map and notes.
        fragments: those taken in, in order.
        times: what opening it and taking them in took.
        choices: what it was opened with; which grouping is taken, and which others are kept.

    """

    session: Session
    prepared: Fit
    fragments: list[Fragment] = field(default_factory=list)
    times: Times = field(default_factory=Times)
    choices: Choices = field(default_factory=Choices)
    _ids: set[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._ids = {fragment.id for fragment in self.fragments}

    def add(self, fragments: Sequence[Fragment]) -> list[Info]:
        """Take in fragments, one after another; returns what became of each.

        If one is refused, those before it have been taken in, it and those after it have not.

        Raises:
            UsageError: an id that is there already; nothing has been taken in then.
            LikelihoodError: the likelihood failed on a fragment, which the message names.

        """
        new: set[str] = set()
        for fragment in fragments:
            if fragment.id in self._ids or fragment.id in new:
                again = quoted(fragment.id)
                raise UsageError(f'add: expected a unique id, got "{again}" again')
            new.add(fragment.id)
        begin, before = time.perf_counter(), self.session.n_fragments
        try:
            return self.session.add(fragments)
        finally:
            self._took(time.perf_counter() - begin)
            taken = fragments[: self.session.n_fragments - before]
            self.fragments += taken
            self._ids.update(fragment.id for fragment in taken)

    def remove(self, ids: Sequence[str]) -> None:
        """Take fragments out, as if they had not come: all of these, or none.

        Raises:
            UsageError: an id that is not there.
            LikelihoodError: the likelihood failed on what is left.

        """
        begin = time.perf_counter()
        try:
            self.session.remove(ids)
        finally:
            self._took(time.perf_counter() - begin)
        self._ids.difference_update(ids)
        self.fragments[:] = [fragment for fragment in self.fragments if fragment.id in self._ids]

    def _took(self, seconds: float) -> None:
        self.times = replace(self.times, clustering=self.times.clustering + seconds)

    def touched(self) -> Touched:
        """The subproblems changed since this was last asked, or else since the opening."""
        return self.session.touched()

    def knowledge_base(self) -> KnowledgeBase:
        """What is known by now; adding more does not change it."""
        made = self.prepared
        return KnowledgeBase(
            tuple(self.fragments),
            consensus(self.session.posterior(), self.choices.estimate, self.choices.entities),
            self.times,
            made.alpha,
            made.confidence,
            made.notes,
            alternatives=self.choices.alternatives,
        )


def open_live(
    fragments: Sequence[Fragment], choices: Choices, snapshot: Snapshot | None = None
) -> LiveClustering:
    """Open a clustering.

    Args:
        fragments: what fits itself to the input is fitted to these; none of them is taken in.
        choices: likelihood, clusterer, alpha and the rest.
        snapshot: of an earlier session, opened with the same fragments and choices; it goes on.

    Raises:
        KBForgeError: as `prepare`.
        UsageError: the clusterer is an offline method, or the snapshot is of other choices.

    """
    begin = time.perf_counter()
    prepared = prepare(fragments, choices)
    rng = np.random.default_rng(choices.seed)
    session = prepared.clusterer.open(prepared.problem, rng, snapshot)
    taken = list(snapshot.fragments if snapshot else ())
    times = Times(preparing=time.perf_counter() - begin)
    return LiveClustering(session, prepared, taken, times, choices)
