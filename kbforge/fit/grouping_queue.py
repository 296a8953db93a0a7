"""Questions that choose between candidate groupings of a sample: which pair to ask about next.

Candidates vote on each pair: do they put it together? Pairs on which the same candidates say yes
are alike to whoever chooses between the candidates. They form a *cell*:

| symbol | meaning |
|---|---|
| K | candidates |
| n | fragments of the sample that all candidates group |
| I | probes: the fragments whose pairs are listed |
| C | cells |
| v[c, k] | whether candidate k puts the pairs of cell c together |
| N[i, c] | with how many others probe i makes a pair of cell c |
| a[i, k] | how many fragments the cluster of probe i has in candidate k |

Pairs that no candidate puts together are in no cell. Fragments that are alone in every candidate
are no probes: all candidates do the same for them.

A candidate is worth its expected B-cubed F1 (mean over items) on the probes. With q the
believed probability that a pair of a cell is of one entity (w as in `kbforge.fit.belief`):

    n_ik = 1 + sum over c of N_ic v_ck q_c      expected fragments of i's cluster that belong there
    b_i  = 1 + sum over c of N_ic q_c           expected fragments of i's entity
    F_k  = mean over i of 2 n_ik / (a_ik + b_i)

F is linear in w near the mean: with J its Jacobian and S the covariance of w, that of F is J S J'.
So every question has a price tag before it is asked: an answer about cell c takes
(J_k S x_c)^2 / (1 / I_c + x_c' S x_c) from the variance of F_k. The cell is asked about that takes
most from the differences between the leader and its rivals, each weighed by the probability that
the rival is the better one. Within the cell the pair is drawn at random, so that answers are a
stratified sample of it.

Every third question is an *audit*: an entity of the leader is drawn at random, and asked about is
its pair that is most likely wrong. How many audits fail says how many entities are right.

Before any answer the candidates are worth their predicted gains. What the prior belief makes of
them differs, and after t answers m / (m + t) of that difference is still added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import orjson
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, ndtr

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.evaluation.reliability import BoolArray
from kbforge.files.answers import AUDIT, INFORMATIVE
from kbforge.fit.belief import Belief, design, information_of, prior, update

MOST_PROBES = 512
_MOST_PAIRS = 200_000  # listed at most, whatever the candidates join
_WORD = 8  # bytes


@dataclass(frozen=True, slots=True)
class Votes:
    """The cells of a sample.

    Attributes:
        cells: v, shape [C, K].
        counts: N, shape [I, C], sparse.
        sizes: a, shape [I, K].
        share: of the sample that the probes stand for, in [0, 1]: those that are not alone in all
            candidates.
        probe: of each listed pair, a number of a fragment, ascending, shape [pairs].
        other: of each listed pair, the other fragment, shape [pairs].
        cell: of each listed pair, shape [pairs].

    """

    cells: BoolArray
    counts: sparse.csr_array
    sizes: FloatArray
    share: float
    probe: IntArray
    other: IntArray
    cell: IntArray


def count_votes(groupings: IntArray, rng: np.random.Generator) -> Votes:
    """The cells of candidate groupings.

    Args:
        groupings: number of each fragment's cluster, shape [K, n].
        rng: draws the probes, where there are too many fragments for all to be one.

    """
    k, n = groupings.shape
    sizes = np.stack([np.bincount(row, minlength=1)[row] for row in groupings])  # [K, n]
    joined = np.flatnonzero((sizes > 1).any(axis=0))
    probes, partners, patterns = [], [], []
    listed = 0
    for i in rng.permutation(joined)[:MOST_PROBES].tolist():
        together = groupings == groupings[:, i, None]  # [K, n]
        together[:, i] = False
        others = np.flatnonzero(together.any(axis=0))
        probes.append(i)
        partners.append(others)
        patterns.append(np.packbits(together[:, others], axis=0).T)  # [others, bytes]
        listed += len(others)
        if listed >= _MOST_PAIRS:
            break
    if not probes:
        nothing = np.zeros(0, np.int64)
        none, nobody = np.zeros((0, k), np.bool_), sparse.csr_array((0, 0))
        return Votes(none, nobody, np.zeros((0, k)), 0.0, nothing, nothing, nothing)
    lengths = np.array([len(others) for others in partners])
    order = np.argsort(probes)
    row = np.repeat(np.argsort(order), lengths)
    bits = np.concatenate(patterns)
    distinct, cell = _distinct(bits)
    cells = np.unpackbits(distinct, axis=1, count=k).astype(np.bool_)
    counts = sparse.csr_array((np.ones(len(row)), (row, cell)), shape=(len(probes), len(cells)))
    counts.sum_duplicates()
    listed_order = np.argsort(row, kind="stable")
    chosen = np.array(probes)[order]
    return Votes(
        cells=cells,
        counts=counts,
        sizes=sizes[:, chosen].T.astype(np.float64),
        share=len(joined) / n,
        probe=chosen[row[listed_order]],
        other=np.concatenate(partners)[listed_order],
        cell=cell[listed_order],
    )


def votes_on(groupings: IntArray, first: IntArray, second: IntArray) -> BoolArray:
    """Which candidates put pairs together, shape [pairs, K]."""
    together: BoolArray = groupings[:, first] == groupings[:, second]
    return together.T


def _distinct(bits: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], IntArray]:
    """The distinct rows, and the number of each row's."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // _WORD) * _WORD), np.uint8)
    padded[:, : bits.shape[1]] = bits
    words = padded.view(">u8")
    order = np.lexsort(words.T[::-1])
    ordered = words[order]
    begins = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    number = np.empty(len(bits), np.int64)
    number[order] = np.cumsum(begins) - 1
    return bits[order[begins]], number


_JUDGED = 5.0  # m: answers after which the belief counts as much as the predicted gains
_TEMPERATURE = 0.1  # of F1: candidates predicted to be so much worse weigh 1/e
_LEAST_VARIANCE = 1e-8
_AUDITED = 3  # every so many-th question audits an entity


@dataclass(frozen=True, slots=True)
class CandidatePair:
    """A pair to ask about.

    Attributes:
        first: number of a fragment in the sample.
        second: of the other one.
        how: "informative" or "audit".
        joined: prior weight of the candidates that put them together, in [0, 1].
        share: of all listed pairs that have the same votes, in (0, 1].

    """

    first: int
    second: int
    how: str
    joined: float
    share: float


class GroupingQueue:
    """Candidate groupings, the answers so far, and the next pair to ask about.

    Args:
        groupings: number of each fragment's cluster, shape [K, n].
        gains: predicted F1 gains of the candidates over one and the same grouping, shape [K].
        alike: fragments with equal numbers say the same; no two such pairs are asked about,
            shape [n].
        seed: of the drawn pairs.

    """

    def __init__(
        self, groupings: IntArray, gains: FloatArray, alike: IntArray, seed: int = 0
    ) -> None:
        self._groupings, self._gains, self._alike, self._seed = groupings, gains, alike, seed
        self._votes = count_votes(groupings, np.random.default_rng([seed, len(gains)]))
        weights = np.exp((gains - gains.max()) / _TEMPERATURE)
        self.weights: FloatArray = weights / weights.sum()
        self._prior = prior(self.weights)
        self._answers: list[tuple[int, int, bool | None]] = []
        self._before = self._worth_by(self._prior)[0]

    @cached_property
    def belief(self) -> Belief:
        """After the answers so far."""
        known = self._known()
        first, second = (np.array([one[k] for one in known], np.int64) for k in (0, 1))
        same = np.array([one[2] for one in known], np.bool_)
        return update(self._prior, votes_on(self._groupings, first, second), same)

    def _known(self) -> list[tuple[int, int, bool]]:
        return [(i, j, same) for i, j, same in self._answers if same is not None]

    def add(self, first: int, second: int, same: bool | None) -> None:
        """Take in an answer; None is one that the person does not know."""
        self._answers.append((first, second, same))
        self._forget()

    def undo(self) -> None:
        """Forget the last answer."""
        self._answers.pop()
        self._forget()

    def _forget(self) -> None:
        """What followed from the answers follows no longer."""
        for name in ("belief", "_worth"):
            self.__dict__.pop(name, None)

    def scores(self) -> tuple[FloatArray, FloatArray]:
        """Expected F1 of the candidates less that of the first, and its variance, shape [K]."""
        after, variance, _ = self._worth
        rest = _JUDGED / (_JUDGED + len(self._known()))
        return after + rest * (self._gains - self._gains[0] - self._before), variance

    def best(self) -> int:
        """The candidate with the largest expected F1; the first of equals."""
        return int(np.argmax(self.scores()[0]))

    def next(self) -> CandidatePair | None:
        """The pair to ask about; None if the candidates leave nothing to ask."""
        open_pairs = self._open()
        if not len(open_pairs):
            return None
        rng = np.random.default_rng([self._seed, len(self._answers)])
        if len(self._answers) % _AUDITED == _AUDITED - 1:
            return self._audited(open_pairs, rng)
        cells = np.unique(self._votes.cell[open_pairs])
        value = self._value(cells)
        if not value.max() > 0:
            return self._audited(open_pairs, rng)
        cell = cells[int(np.argmax(value))]
        pairs = open_pairs[self._votes.cell[open_pairs] == cell]
        # a random probe of the cell, then a random pair of it: items count alike
        probes = self._votes.probe[pairs]
        pairs = pairs[probes == rng.choice(np.unique(probes))]
        return self._drawn(int(rng.choice(pairs)), INFORMATIVE)

    def _open(self) -> IntArray:
        """The listed pairs that nothing equal to was asked about."""
        pair = self._pair_names(self._votes.probe, self._votes.other)
        first, second = (np.array([a[k] for a in self._answers], np.int64) for k in (0, 1))
        asked = self._pair_names(first, second)
        return np.flatnonzero(~np.isin(pair, asked))

    def _pair_names(self, first: IntArray, second: IntArray) -> IntArray:
        one, other = self._alike[first], self._alike[second]
        return np.minimum(one, other) * len(self._alike) + np.maximum(one, other)

    def _audited(self, pairs: IntArray, rng: np.random.Generator) -> CandidatePair:
        """An entity of the leader drawn at random, and its pair that is most likely wrong."""
        leader = self._groupings[self.best()]
        probe, other = self._votes.probe[pairs], self._votes.other[pairs]
        drawn = np.unique(probe)
        chance = 1 / np.bincount(leader)[leader[drawn]]
        chosen = rng.choice(drawn, p=chance / chance.sum())
        mine = np.flatnonzero(probe == chosen)
        q = self.belief.probability(self._votes.cells[self._votes.cell[pairs[mine]]])
        together = leader[other[mine]] == leader[chosen]
        return self._drawn(int(pairs[mine[np.argmax(np.where(together, 1 - q, q))]]), AUDIT)

    def _drawn(self, pair: int, how: str) -> CandidatePair:
        cell = int(self._votes.cell[pair])
        return CandidatePair(
            first=int(self._votes.probe[pair]),
            second=int(self._votes.other[pair]),
            how=how,
            joined=min(float(self._votes.cells[cell] @ self.weights), 1.0),
            share=float(np.mean(self._votes.cell == cell)),
        )

    def _value(self, cells: IntArray) -> FloatArray:
        """How much variance an answer takes from what decides, shape [cells]."""
        mean, _ = self.scores()
        _, _, jacobian = self._worth
        leader = int(np.argmax(mean))
        difference = jacobian - jacobian[leader]  # [K, K + 1]
        covariance = self.belief.covariance
        apart = ((difference @ covariance) * difference).sum(axis=1)
        doubt = np.sqrt(np.maximum(apart, _LEAST_VARIANCE))
        rival = ndtr((mean - mean[leader]) / doubt)
        rival[leader] = 0.0
        x = design(self._votes.cells[cells])
        logit, spread = self.belief.logit(self._votes.cells[cells])
        taken = (difference @ covariance @ x.T) ** 2  # [K, cells]
        said = information_of(logit / np.sqrt(1 + np.pi * spread / 8))
        value: FloatArray = rival @ taken * said / (1 + said * spread)
        return value

    @cached_property
    def _worth(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """As `_worth_by` the belief after the answers so far."""
        return self._worth_by(self.belief)

    def _worth_by(self, belief: Belief) -> tuple[FloatArray, FloatArray, FloatArray]:
        """F less that of the first candidate, its variance, shape [K], and J, shape [K, K + 1]."""
        votes = self._votes
        if not len(votes.cells):
            k = len(self._gains)
            return np.zeros(k), np.zeros(k), np.zeros((k, k + 1))
        v = votes.cells.astype(np.float64)  # [C, K]
        q = belief.probability(votes.cells)
        n = 1 + votes.counts @ (v * q[:, None])  # [I, K]
        total = votes.sizes + (1 + votes.counts @ q)[:, None]
        scale = votes.share / len(n)
        f = scale * (2 * n / total).sum(axis=0)
        by_cell = votes.counts.T @ (2 / total) * v - votes.counts.T @ (2 * n / total**2)  # [C, K]
        logit, _ = belief.logit(votes.cells)
        p = expit(logit)
        x = design(votes.cells)
        jacobian = scale * (by_cell * (p * (1 - p))[:, None]).T @ x
        off = jacobian - jacobian[0]
        variance = ((off @ belief.covariance) * off).sum(axis=1)
        return f - f[0], variance, jacobian


def alike(fragments: Sequence[Fragment]) -> IntArray:
    """Equal numbers for fragments that say the same, shape [n]."""
    numbers: dict[bytes, int] = {}
    says = (
        orjson.dumps([dict(f.properties), f.vector], option=orjson.OPT_SORT_KEYS) for f in fragments
    )
    found = (numbers.setdefault(said, len(numbers)) for said in says)
    return np.fromiter(found, np.int64, len(fragments))
