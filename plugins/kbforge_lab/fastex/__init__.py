"""FastEx: mixtures of exponential families, sampled with proposals from binary hashes.

A fragment x is taken out of its cluster, and a place y is proposed with probability q(y), at the
cost of a Hamming distance a cluster. Metropolis and Hastings accept it by the exact predictives of
two clusters, x's own without x.

| symbol | meaning |
|---|---|
| phi(x) | sufficient statistics of x (for documents the counts of their words) |
| theta*_y | natural parameters of cluster y: their posterior mean, or another point near it |
| n_y, a | fragments of y; alpha/K in a mixture of K components, 0 in a Dirichlet process |
| f(v) | l signs of inner products of v with random directions: its hash |
| z(x, y) | share of the bits in which f(phi(x)) and f(theta*_y) differ: an angle, over pi |
| s(x, y) | |theta*_y| |phi(x)| cos(pi max(0, z - e)) - g(theta*_y) + log(n_y + a): equation 8 |
| e | sqrt(log(k / delta) / 2l), for k clusters: s bounds them all with probability 1 - delta |
| q(y) | proportional to exp(t (s - log(n_y + a)) + log(n_y + a)); t is 1 as published |

*What is exact.* A sweep goes through the fragments block by block, in random order. While the
fragments of a block B move, q is made of the clusters *without all of B*, a function of what does
not move, so that every step leaves the posterior as it is. So the proposals of a block can be made
beforehand, on several threads, each from random numbers of its own; the number of threads changes
nothing. Directions are drawn independently of the state. t is fitted to the state in the first
twenty sweeps, and fixed from then on.

*Every place is reachable.* q does not know clusters of B's fragments alone and a new cluster. A
fixed share of the proposals (ELSEWHERE) goes to them in proportion to their size; a new one counts
as one fragment. Another share of the steps (EXPLORE) proposes from the prior, a kernel of its own.

*Several tries.* With more than one, proposals are drawn from q independently, one of them is chosen
in proportion to its weight w = pi / q, and accepted with probability min(1, sum of w over all tries
/ (that sum - w of the chosen + w of x's place)) (Liu, "Monte Carlo strategies in scientific
computing", 2001, section 5.5: multiple-try Metropolized independence sampler).

*The temperature t.* The noise of 32 bits is as large as what tells clusters apart. With t = 1, q is
sure of clusters that are the nearest by chance; so t is what gives the places of the fragments the
highest q on average.

Source: the poster "FastEx: Fast Clustering with Exponential Families" (Ahmed, Ravi,
Narayanamurthy and Smola, 2012), with + log n_y in its equations 7 and 8, z as a share of bits that
do *not* match, and phi(x) for phi(y). Equation numbers are the poster's.

`reference` is the sampler in NumPy, to be read; `compiled` the same in C++ (`src`).
"""
