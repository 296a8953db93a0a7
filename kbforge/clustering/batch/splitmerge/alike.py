"""MinSM: fragments with the same weighted MinHash are split off, and bring clusters together.

Luo and Shrivastava, "Scaling-up split-merge MCMC with locality sensitive sampling" (2018), section
3.2, with K = L = 1. One hash h is drawn, and S(u) are the fragments v with h(v) = h(u).

| symbol | meaning |
|---|---|
| n, M | how many fragments and clusters there are |
| C, {A, B} | a cluster, and the two that it falls apart into |
| S(u) | the bucket of u, u among them |

The paper averages the probability of a proposal over all h. Only K = 1 MinHash has a formula for
that, which is but a lower bound (its equation 4: elementwise, min over A less max over B is what
would be left if one feature decided alone). And it multiplies with the size of the bucket that came
out, which is of one h. Here h is drawn first, whatever the grouping, and is given from then on.
Then everything can be counted:

*Smart split.* u is uniform over the n fragments; its cluster C falls apart into C & S(u) and the
rest. C becomes {A, B} if C & S(u) is A or is B, so that

    q(split) = #{u in C: C & S(u) is A or B} / n

A is such a part if it has one hash, which no fragment of B has; then all of its |A| members lead
there. Likewise B. If C & S(u) is all of C, nothing moves.

*Smart merge.* u is uniform over the fragments, v over the others in its bucket (without any,
nothing moves); if their clusters A and B differ, they become one. Either may have been drawn first:

    q(merge) = (1/n) [sum over u in A of |S(u) & B| / |S(u) - u|
                      + sum over v in B of |S(v) & A| / |S(v) - v|]

As S(u) and S(v) are the same bucket, the sums are equal. Let bucket k hold N_k fragments, a_k of A
and b_k of B: q(merge) = (2/n) sum over k of a_k b_k / (N_k - 1).

*Ratio.* With the dumb moves of `smart_dumb`, a move from z to z' is followed with the probability

    min(1, [p(z') / p(z)] q(back) / q(there))

where p is prior times likelihood. Proof that p stays: given h, u and v depend on z alone; the move
{C} -> {A, B} of pair 1 is suggested with probability q(split)/4 and undone with 1/4 2/(M'(M'-1)),
M' = M + 1, that of pair 2 is suggested with 2^(1-|C|)/(4M) and undone with q(merge)/4; and
Metropolis-Hastings has detailed balance for each pair by itself. Then it holds for their mixture,
and for a mixture over h, as long as h does not depend on z. Whether pairs 1 and 2 lead to the same
z' does not matter.

Nothing of this asks how the buckets came about. So several MinHashes may be one hash together
(K > 1), which the paper's formulas rule out: of many clusters, a bucket of one MinHash holds too
many for its v to be of u's kind.

A split costs O(|C|) and a merge O(|A| + |B|): hashes are compared and L is added up.
"""

from __future__ import annotations

import math

import numpy as np

from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.splitmerge.buckets import Buckets
from kbforge.clustering.batch.splitmerge.clusters import Clusters
from kbforge.clustering.batch.splitmerge.draws import Draws
from kbforge.clustering.batch.splitmerge.rotation import Rotation
from kbforge.clustering.batch.splitmerge.smart_dumb import Parted, SmartDumb
from kbforge.contracts import IntArray


class AlikeKernel(SmartDumb[Buckets]):
    """See the module.

    Args:
        clusters: of the grouping.
        tables: the hashes to take in turn.
        moves: suggestions of a sweep; None is as many as there are fragments.

    """

    def __init__(
        self, clusters: Clusters, tables: Rotation[Buckets], moves: int | None = None
    ) -> None:
        super().__init__(clusters, moves=moves)
        self._tables = tables

    def given(self, draws: Draws) -> Buckets:
        return self._tables.next(draws)

    def smart_split(self, grouping: Grouping, given: Buckets, draws: Draws) -> Parted | None:
        u = draws.below(grouping.n_fragments)
        slot = grouping.slot_of[u]
        if len(grouping.members[slot]) < 2:
            return None
        members = self._clusters.members(slot)
        inside = given.number[members] == given.number[u]
        a, b = members[inside], members[~inside]
        return Parted(slot, a, b) if len(b) else None

    def log_split(self, a: IntArray, b: IntArray, given: Buckets) -> float:
        in_a, in_b = given.number[a], given.number[b]
        leading = len(a) * _bucket_of_its_own(in_a, in_b)
        leading += len(b) * _bucket_of_its_own(in_b, in_a)
        return math.log(leading / len(given.number)) if leading else -np.inf

    def smart_merge(
        self, grouping: Grouping, given: Buckets, draws: Draws
    ) -> tuple[int, int] | None:
        u = draws.below(grouping.n_fragments)
        others = int(given.size[given.number[u]]) - 1
        if not others:
            return None
        v = given.other(u, draws.below(others))
        slots = grouping.slot_of[u], grouping.slot_of[v]
        return None if slots[0] == slots[1] else slots

    def log_merge(self, a: IntArray, b: IntArray, given: Buckets) -> float:
        in_a, in_b = given.number[a], given.number[b]
        together = pairs_with(in_a, in_b)
        met = together > 0
        if not met.any():
            return -np.inf
        share = (together[met] / (given.size[in_b[met]] - 1)).sum()
        return math.log(2 * float(share) / len(given.number))


def _bucket_of_its_own(part: IntArray, rest: IntArray) -> bool:
    """Whether a part is all that the cluster has in one bucket."""
    first = part[0]
    return bool((part == first).all()) and not bool((rest == first).any())


def pairs_with(some: IntArray, others: IntArray) -> IntArray:
    """By number of `others`, how many of `some` equal it, shape [len(others)]."""
    ordered = np.sort(some)
    return np.asarray(ordered.searchsorted(others, "right") - ordered.searchsorted(others, "left"))
