"""Look-ahead: scores in one batch the sets that the next fragments will need.

A step needs few sets, but a network is efficient on many at once. So when a step needs scores, the
following fragments, a *wave*, are proposed on the same state, and their sets are scored in the same
batch. Then the steps are taken in order and find their scores. The result is the same, bit for bit,
if a score does not depend on the rest of the batch.

A fragment waits if an earlier one will probably change what it is compared with. If that happens
unexpectedly, it is proposed again when a step next needs scores. A failure during look-ahead is not
reported, because the fragment's own step fails again; look-ahead then pauses for one wave. Waves
get shorter if many sets are in vain (no step used them) or if nearly every step needs scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from kbforge.clustering.scoring import SessionScores, StepDemand
from kbforge.contracts import Fragment
from kbforge.models.scoring import Key

_FIRST = 4
"""Fragments of the first wave."""
_ENOUGH = 16
"""Minimum fragments between changes of the wave's length."""
_BLIND = 256
"""Fragments after which look-ahead is tried again once it has not helped."""
_WAITING = 0.03
"""A fragment waits if more than this share of its clusters will probably change."""
_MUCH = 0.3
_LITTLE = 0.15
"""Above the first share of sets in vain, waves get half as long; below the second, they may get
longer."""
_NO_USE = 0.75
"""They also get half as long if more than this share of steps needs scores."""
_MOST_SETS = 4096
"""A batch ends at this many sets: more would not be faster, and they take memory."""


@dataclass(slots=True)
class _Glance:
    """A fragment that was proposed; `fresh` while what it is compared with has not changed.

    `owners` are the subproblems that it was proposed to, `likely` those of them that it will
    probably change, `keys` the keys that were followed, and `scored` the sets scored ahead for it.
    """

    fresh: bool = False
    owners: frozenset[int] = frozenset()
    likely: frozenset[int] = frozenset()
    keys: frozenset[int] = frozenset()
    scored: set[Key] = field(default_factory=set)


@dataclass(slots=True)
class _Tally:
    """Counts since the width was last chosen: steps, steps that needed scores, sets scored and in
    vain."""

    taken: int = 0
    asked: int = 0
    scored: int = 0
    in_vain: int = 0


class LookAhead:
    """The next fragments (at most `wave` at once), and what was scored for them.

    `sets` are the scores of a black box; without them there is no look-ahead. `demand` returns what
    a step with a fragment would need now, given the number of fragments before it; it may raise.
    """

    def __init__(
        self,
        wave: int,
        sets: SessionScores | None,
        demand: Callable[[Fragment, int], StepDemand],
    ) -> None:
        self._sets, self._demand = sets, demand
        self._most, self._width = wave, min(wave, _FIRST)
        self._coming: Sequence[Fragment] = ()
        self._at = 0  # of `_coming`: the fragment that is next
        self._seen: dict[int, _Glance] = {}  # by place in `_coming`
        self._blind = 0  # fragments left before it is looked ahead again
        self._open: set[Key] = set()
        self._tally = _Tally()

    @property
    def in_vain(self) -> int:
        """Sets scored ahead that no step has used."""
        return len(self._open)

    def expects(self, x: Fragment) -> bool:
        """Whether x is the next fragment."""
        return self._at < len(self._coming) and self._coming[self._at] is x

    def foresee(self, fragments: Sequence[Fragment]) -> None:
        """Announce the fragments that probably come next."""
        self._coming, self._at = fragments, 0
        self._seen.clear()

    def before(self, x: Fragment) -> None:
        """Prepare the step with x. Only exceptions that end a program are raised."""
        if not self.expects(x):
            return
        here = self._at
        self._at += 1
        self._seen.pop(here - 1, None)  # it is there still if it was refused
        if self._most == 1 or self._sets is None:
            return
        if self._blind:
            self._blind -= 1
            return
        last = self._at == len(self._coming)
        if not last and (here not in self._seen or not self._seen[here].fresh):
            try:
                self._look(self._sets, here)
            except Exception:  # the step says it itself, if it comes to that
                self._stop(self._width)

    def after(self, replaced: Sequence[int], asked: Iterable[Key], keys: Iterable[int]) -> None:
        """Record that a step replaced these subproblems, used these sets and followed these
        keys."""
        self._open.difference_update(asked)
        seen = self._seen.pop(self._at - 1, None)
        if seen is None:
            return
        self._tally.taken += 1
        self._tally.scored += len(seen.scored)
        self._tally.in_vain += len(seen.scored & self._open)
        if self._tally.taken >= max(self._width, _ENOUGH):
            self._adapt()
        followed = frozenset(keys)
        for other in self._seen.values():
            if other.fresh:
                touched = not other.owners.isdisjoint(replaced)
                other.fresh = not touched and other.keys.isdisjoint(followed)

    def _look(self, sets: SessionScores, here: int) -> None:
        """Score the missing sets of this fragment, if any, and of those after it."""
        unknown: dict[Key, Sequence[Fragment]] = {}
        changing: set[int] = set()
        for place in range(here, min(here + self._width, len(self._coming))):
            seen = self._seen.setdefault(place, _Glance())
            if not seen.fresh:
                coming = self._demand(self._coming[place], place - here)
                seen.owners, seen.likely = frozenset(coming.owners), coming.likely
                seen.keys = coming.keys
                doubtful = sum(owner in changing for owner in coming.owners)
                if doubtful <= _WAITING * len(coming.owners):
                    seen.fresh = True
                    seen.scored.update(coming.unknown)
                    unknown.update(coming.unknown)
            if not unknown:  # the step here has all that it asks for
                return
            if len(unknown) >= _MOST_SETS:
                break
            changing |= seen.likely
        self._tally.asked += 1
        try:
            sets.cache.learn(unknown)
        finally:
            self._open.update(key for key in unknown if key in sets.cache)

    def _adapt(self) -> None:
        """Choose the length of waves."""
        tally, self._tally = self._tally, _Tally()
        share = tally.in_vain / max(tally.scored, 1)
        if share > _MUCH or tally.asked > _NO_USE * tally.taken:
            self._width //= 2
            if self._width < 2:
                self._width = min(self._most, _FIRST)
                self._stop(_BLIND)
        elif share <= _LITTLE:
            self._width = min(2 * self._width, self._most)

    def _stop(self, fragments: int) -> None:
        """Pause look-ahead for this many fragments."""
        self._seen.clear()
        self._blind = fragments
