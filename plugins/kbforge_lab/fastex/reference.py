"""FastEx in NumPy; `compiled` makes the same moves a hundred times as fast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kbforge.contracts import FloatArray, IntArray
from kbforge_lab.fastex.families import ExponentialFamily, Mixture
from kbforge_lab.fastex.proposals import (
    ELSEWHERE,
    EXPLORE,
    TEMPERATURES,
    Directions,
    HashedClusters,
    Purpose,
    cosines,
    drawn,
    error_term,
    log_weight,
    packed,
    uniform,
)

NEW = -1
"""The place that is a new cluster."""
CANDIDATES = 32
"""Clusters that a fragment is compared with when it is placed for the first time."""
_GROWTH = 1.5
"""How much larger a cluster is than when it was hashed, before it is hashed again at the start."""


class Try(NamedTuple):
    """A place that was proposed: its slot or NEW, and log q of it; ELSEWHERE is still open."""

    slot: int
    log_q: float


OPEN = Try(-2, 0.0)
_COLUMNS = ("slots", "hashes", "norms", "g", "log_join")


class Draft(NamedTuple):
    """What was drawn for a fragment before its turn."""

    tries: tuple[Try, ...]
    here: float
    """log q of its own cluster; NaN if that has no hash."""


class Sampler:
    """Fragments, clusters by slot, and q.

    `slot_of` [n] is -1 for a fragment in no cluster; `proposed` counts proposals of another place.
    """

    def __init__(
        self, family: ExponentialFamily, prior: Mixture, delta: float | None, tries: int
    ) -> None:
        self._family, self._prior, self._delta, self._tries = family, prior, delta, tries
        self.slot_of = np.full(family.n, -1, dtype=np.int64)
        self.sizes: list[int] = []
        self.temperature = 1.0
        self.proposed = self.moved = 0
        self._clusters = 0
        self._free: list[int] = []
        # slots in use that q does not know, in the order in which they were opened
        self._unhashed: list[int] = []
        self._hashed = self._hash([])
        self._hashed_at: dict[int, int] = {}

    def redirect(self, directions: Directions) -> None:
        self._directions = directions
        self._hashes = packed(self._family.projections(directions))

    def begin(self, labels: IntArray) -> None:
        """Have a grouping, its clusters numbered 0, 1, ..., shape [n]; there was none."""
        for fragment, slot in enumerate(labels.tolist()):
            self._put(fragment, slot)

    # -- clusters

    def _put(self, fragment: int, slot: int) -> int:
        """Put a fragment that is in no cluster into one; returns its slot."""
        if slot == NEW:
            slot = self._free.pop() if self._free else len(self.sizes)
        self.sizes.extend([0] * (slot + 1 - len(self.sizes)))
        if not self.sizes[slot]:
            self._clusters += 1
            self._unhashed.append(slot)
        self._family.add(fragment, slot)
        self.sizes[slot] += 1
        self.slot_of[fragment] = slot
        return slot

    def _take(self, fragment: int) -> None:
        slot = int(self.slot_of[fragment])
        self._family.remove(fragment, slot)
        self.sizes[slot] -= 1
        if not self.sizes[slot]:
            self._clusters -= 1
            self._unhashed.remove(slot)  # a cluster with a hash keeps what it was hashed by
            self._free.append(slot)

    def _hash(self, slots: Sequence[int]) -> HashedClusters:
        parts = [self._family.summary(s, self.sizes[s], self._directions) for s in slots]
        if not parts:
            none = np.zeros(0)
            return HashedClusters(none.astype(int), np.zeros((0, 0), np.uint64), none, none, none)
        projections, norms, g = zip(*parts, strict=True)
        return HashedClusters(
            np.array(slots, dtype=np.int64),
            packed(np.stack(projections)),
            np.array(norms),
            np.stack(g),
            np.array([self._prior.log_join(self.sizes[s]) for s in slots]),
        )

    def _log_bound(self, fragment: int, hashed: HashedClusters) -> FloatArray:
        family, bits = self._family, self._directions.bits
        by_distance = cosines(bits, error_term(len(hashed.slots), bits, self._delta))
        return hashed.log_bound(
            self._hashes[fragment], family.norms[fragment], family.lengths[fragment], by_distance
        )

    # -- the start

    def place(self, fragments: Sequence[int], stream: int) -> float:
        """Draw places of fragments in no cluster; returns what the log posterior gains, in nats."""
        gain = 0.0
        for fragment in fragments:
            places = self._candidates(fragment)
            if self._prior.log_new(self._clusters) > -math.inf:
                places.append(NEW)
            log_pi = [self._log_pi(fragment, place) for place in places]
            weights = np.exp(np.array(log_pi) - max(log_pi))
            u = uniform(stream, fragment, Purpose.CHOICE) * weights.sum()
            which = min(int(weights.cumsum().searchsorted(u, side="right")), len(places) - 1)
            gain += log_pi[which]
            slot = self._put(fragment, places[which])
            self._family.remember(fragment, slot)
            self._refresh(slot)
        return gain

    def _candidates(self, fragment: int) -> list[int]:
        """Those that seem likeliest: to the family, or by the bound, the first of equals."""
        hashed = self._hashed
        recalled = self._family.recalled(fragment, CANDIDATES)
        if recalled is not None or not len(hashed.slots):
            return recalled or []
        bound = self._log_bound(fragment, hashed) + hashed.log_join
        best = np.argsort(-bound, kind="stable")[:CANDIDATES]
        return [int(slot) for slot in hashed.slots[best]]

    def _refresh(self, slot: int) -> None:
        hashed, size = self._hashed, self.sizes[slot]
        if not len(hashed.slots):
            self._hashed, self._hashed_at[slot] = self._hash([slot]), size
            return
        if size > 1 and size < _GROWTH * self._hashed_at[slot]:
            return
        self._hashed_at[slot] = size
        row = self._hash([slot])
        if size == 1:
            columns = [(getattr(hashed, name), getattr(row, name)) for name in _COLUMNS]
            self._hashed = HashedClusters(*map(np.concatenate, columns))
            return
        for name in _COLUMNS:
            getattr(hashed, name)[slot] = getattr(row, name)[0]

    # -- blocks

    def block(self, fragments: IntArray, stream: int) -> float:
        """Move the excluded block, in order; returns what the log posterior gains, in nats."""
        drafts = [self._propose(int(fragment), stream) for fragment in fragments]
        return sum(
            self._step(int(fragment), draft, stream)
            for fragment, draft in zip(fragments, drafts, strict=True)
        )

    def fit(self, fragments: IntArray) -> FloatArray:
        """The mean of log q of the places of fragments, by temperature, shape [TEMPERATURES]."""
        known = [f for f in fragments.tolist() if int(self.slot_of[f]) in set(self._hashed.slots)]
        out = np.zeros((len(known), len(TEMPERATURES)))
        for row, fragment in enumerate(known):
            bound = self._log_bound(fragment, self._hashed)
            here = int(np.searchsorted(self._hashed.slots, self.slot_of[fragment]))
            for column, temperature in enumerate(TEMPERATURES):
                weights = self._hashed.weights(bound, temperature)
                out[row, column] = math.log(int(weights[here]) / int(weights.sum()))
        return out.mean(axis=0) if known else np.zeros(len(TEMPERATURES))

    def exclude(self, fragments: IntArray) -> None:
        """Have q of the clusters without these fragments; then `fit` some and `block` all."""
        places = [int(self.slot_of[fragment]) for fragment in fragments]
        for fragment, slot in zip(fragments.tolist(), places, strict=True):
            self._family.remove(fragment, slot)
            self.sizes[slot] -= 1
        slots = [slot for slot, size in enumerate(self.sizes) if size]
        self._hashed = self._hash(slots)
        for fragment, slot in zip(fragments.tolist(), places, strict=True):
            self._family.add(fragment, slot)
            self.sizes[slot] += 1
        known = set(slots)
        self._unhashed = [
            slot for slot, size in enumerate(self.sizes) if size and slot not in known
        ]

    def _propose(self, fragment: int, stream: int) -> Draft:
        hashed, own = self._hashed, int(self.slot_of[fragment])
        if not len(hashed.slots):
            return Draft((OPEN,) * self._tries, math.nan)
        weights = hashed.weights(self._log_bound(fragment, hashed), self.temperature)
        total = int(weights.sum())

        def one(u: float) -> Try:
            if u < ELSEWHERE:
                return OPEN
            at = drawn(weights, (u - ELSEWHERE) / (1 - ELSEWHERE))
            return Try(int(hashed.slots[at]), log_weight(int(weights[at]), total))

        tries = tuple(
            one(uniform(stream, fragment, Purpose.TRY + 2 * j)) for j in range(self._tries)
        )
        at = int(np.searchsorted(hashed.slots, own))
        known = at < len(hashed.slots) and int(hashed.slots[at]) == own
        return Draft(tries, log_weight(int(weights[at]), total) if known else math.nan)

    def _step(self, fragment: int, draft: Draft, stream: int) -> float:
        """Propose and accept or reject; returns the gain in log posterior."""
        place, log_ratio, gain = self._considered(fragment, draft, stream)
        if place == self._here(fragment):
            return 0.0
        self.proposed += 1
        if log_ratio < 0 and uniform(stream, fragment, Purpose.ACCEPT) >= math.exp(log_ratio):
            return 0.0
        self.moved += 1
        self._take(fragment)
        self._put(fragment, place)
        return gain

    def _here(self, fragment: int) -> int:
        """Where a fragment is: a slot, or NEW if it is alone."""
        own = int(self.slot_of[fragment])
        return NEW if self.sizes[own] == 1 else own

    def _considered(self, fragment: int, draft: Draft, stream: int) -> tuple[int, float, float]:
        """A place, log of the probability that it is accepted (if below 0), and what it gains."""
        here = self._here(fragment)
        log_pi = {here: self._log_pi(fragment, here)}
        if uniform(stream, fragment, Purpose.EXPLORE) < EXPLORE:
            place = self._by_prior(fragment, stream)
            log_pi[place] = self._log_pi(fragment, place)
            log_ratio = log_pi[place] - self._log_prior(fragment, place)
            log_ratio -= log_pi[here] - self._log_prior(fragment, here)
            return place, log_ratio, log_pi[place] - log_pi[here]
        elsewhere = self._elsewhere(int(self.slot_of[fragment]))
        tries = [
            self._opened(elsewhere, here, uniform(stream, fragment, Purpose.TRY + 2 * j + 1))
            if one is OPEN
            else one
            for j, one in enumerate(draft.tries)
        ]
        for slot in {one.slot for one in tries} - {here}:
            log_pi[slot] = self._log_pi(fragment, slot)
        log_w = [log_pi[one.slot] - one.log_q for one in tries]
        which = _chosen(log_w, uniform(stream, fragment, Purpose.CHOICE))
        place = tries[which].slot
        log_q = elsewhere[here] if math.isnan(draft.here) else draft.here
        log_ratio = _log_ratio(log_w, which, log_pi[here] - log_q)
        return place, log_ratio, log_pi[place] - log_pi[here]

    def _elsewhere(self, own: int) -> dict[int, float]:
        """log q of the places without a hash, for a fragment of a slot; it is not counted."""
        sizes = {slot: self.sizes[slot] - (slot == own) for slot in self._unhashed}
        weight = {slot: float(size) for slot, size in sizes.items() if size}
        if self._prior.log_new(self._clusters - (self.sizes[own] == 1)) > -math.inf:
            weight[NEW] = 1.0
        total = sum(weight.values())
        share = ELSEWHERE if len(self._hashed.slots) else 1.0
        return {slot: math.log(share * w / total) for slot, w in weight.items()}

    def _opened(self, elsewhere: dict[int, float], here: int, u: float) -> Try:
        """A place without a hash; where there is none, one that weighs nothing."""
        aim = u * sum(math.exp(log_q) for log_q in elsewhere.values())
        for slot, log_q in elsewhere.items():
            aim -= math.exp(log_q)
            if aim < 0:
                return Try(slot, log_q)
        return Try(*list(elsewhere.items())[-1]) if elsewhere else Try(here, math.inf)

    def _by_prior(self, fragment: int, stream: int) -> int:
        """A place in proportion to the prior: where another fragment is, or a component is."""
        own, others = int(self.slot_of[fragment]), self._family.n - 1
        at = uniform(stream, fragment, Purpose.PICK) * (others + self._prior.alpha)
        if at < others:
            other = int(at)
            return int(self.slot_of[other + (other >= fragment)])
        if self._prior.components is None:
            return NEW
        of_component = int(uniform(stream, fragment, Purpose.COMPONENT) * self._prior.components)
        alone = self.sizes[own] == 1
        used = [s for s, size in enumerate(self.sizes) if size and not (alone and s == own)]
        return used[of_component] if of_component < len(used) else NEW

    def _log_prior(self, fragment: int, place: int) -> float:
        own = int(self.slot_of[fragment])
        if place == NEW:
            alone = own >= 0 and self.sizes[own] == 1
            return self._prior.log_new(self._clusters - alone)
        return self._prior.log_join(self.sizes[place] - (place == own))

    def _log_pi(self, fragment: int, place: int) -> float:
        """What a fragment's being in a place weighs, given all others, in nats."""
        prior = self._log_prior(fragment, place)
        if place == NEW:
            return prior + float(self._family.alone[fragment])
        held = place == int(self.slot_of[fragment])
        return prior + self._family.log_predictive(fragment, place, held)


def _chosen(log_w: Sequence[float], u: float) -> int:
    """Which try is taken, in proportion to its weight."""
    top = max(log_w)
    if top == -math.inf:
        return 0
    sums = np.cumsum([math.exp(w - top) for w in log_w])
    return min(int(sums.searchsorted(u * sums[-1], side="right")), len(log_w) - 1)


def _log_ratio(log_w: Sequence[float], which: int, log_here: float) -> float:
    """log of the sum of weights over what that is with x's place for the chosen one."""
    top = max(*log_w, log_here)
    weights = [math.exp(w - top) for w in log_w]
    others = sum(weights[:which]) + sum(weights[which + 1 :]) + math.exp(log_here - top)
    total = sum(weights)
    return math.log(total / others) if total and others else math.inf if total else -math.inf
