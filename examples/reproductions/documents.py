"""FastEx on documents: time by phase, hash lengths, clusters, documents, and its rivals.

    python examples/reproductions/documents.py [--full]

Documents are drawn from the Dirichlet-multinomial model (60 words, a vocabulary of 8 words a
document, concentration 1,000); 10,000 of them, with `--full` 100,000. Times are processor time on
one thread, microseconds a document.

1. By phase, for 100 and 1,000 clusters and hashes of 8 to 128 bits, after a start of FastEx's own:
   hashing documents (every fourth sweep, so a quarter of it), updates of the counts, hashing
   clusters, proposals, and exact acceptance with the moves. `moved` is the accepted share of the
   proposals of another place; VI in nats, to the truth, after the start and at the end.
2. By the number of documents, with the slope of its logarithm.
3. A sweep of the uncollapsed sampler, which draws all parameters, and exact Gibbs in NumPy.
4. How far a mixture of 100 components comes from a random grouping of 10,000 documents, by hash
   length, number of tries and temperature (as published: 1, the tangent and one try), with the
   acceptance over all sweeps up to there.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterator, Sequence

import numpy as np
from shell import table

from kbforge.contracts import IntArray
from kbforge.evaluation.scores import compare
from kbforge.kernel.binding import WORKERS
from kbforge_lab.batch.chain import ChainRules, GibbsKernel
from kbforge_lab.batch.grouping import Grouping, clusters_of
from kbforge_lab.batch.grouping_model import model_of
from kbforge_lab.batch.run import Watch
from kbforge_lab.fastex.families import DocumentFamily, Mixture, Taylor
from kbforge_lab.fastex.run import FastExRules, FastExRun, MixtureRun, UncollapsedRun
from kbforge_lab.likelihoods.discrete import DirichletMultinomial, SparseCounts
from kbforge_lab.suites.documents import DocumentMixture

PHASES = ("fragments_hashed", "statistics", "clusters_hashed", "proposals", "steps")
SWEEPS = 4
# bits and tries; the last are the defaults
HASHES = ((8, 1), (16, 1), (32, 1), (64, 1), (128, 1), (64, 4))
_REHASH = 4
CHECKED = (10, 20, 40, 60)
# bits, tries, temperature, theta*
SETTINGS: tuple[tuple[int, int, float | None, Taylor], ...] = (
    (8, 1, None, "secant"),
    (32, 1, None, "secant"),
    (128, 1, None, "secant"),
    (8, 4, None, "secant"),
    (32, 4, None, "secant"),
    (128, 4, None, "secant"),
    (512, 4, None, "secant"),
    (32, 1, 1.0, "secant"),
    (32, 1, 1.0, "tangent"),
)
EXACT_DOCUMENTS, EXACT_STEPS = 5000, 200
WATCH = Watch(None, None)
ENDS = ChainRules(None, None, None, 1)


def counts_of(words: Sequence[IntArray], concentration: float) -> SparseCounts:
    """Documents as the likelihood `dirichlet-multinomial` has them, fitted to them."""
    known, numbers = np.unique(np.concatenate(words), return_inverse=True)
    lengths = np.array([len(text) for text in words])
    owners = np.arange(len(words)).repeat(lengths)
    pairs, counts = np.unique(owners * (len(known) + 1) + numbers + 1, return_counts=True)
    totals = np.arange(len(words)) * (len(known) + 1)
    at = np.searchsorted(pairs, totals)
    pairs, counts = np.insert(pairs, at, totals), np.insert(counts, at, lengths)
    owners, rows = np.divmod(pairs, len(known) + 1)
    starts = np.searchsorted(owners, np.arange(len(words) + 1))
    pseudo_counts = np.full(len(known) + 1, concentration / (len(known) + 1))
    signs = np.ones(len(known) + 1)
    pseudo_counts[0], signs[0] = concentration, -1.0
    return SparseCounts(
        starts, rows.astype(np.int32), counts.astype(np.int32), pseudo_counts, signs
    )


def drawn(documents: int, clusters: int) -> tuple[IntArray, DocumentFamily]:
    """The truth, and the documents."""
    mixture = DocumentMixture(documents, clusters)
    truth, words = mixture.draw(np.random.default_rng([16, clusters]))
    return truth, DocumentFamily(counts_of(words, mixture.concentration))


def timed(
    truth: IntArray, family: DocumentFamily, clusters: int, bits: int, tries: int
) -> list[str]:
    """A row of the first table."""
    rules = FastExRules(None, bits, 2, tries, _REHASH, 0.05, None, "secant")
    prior = Mixture(float(clusters))
    run = FastExRun(family, prior, rules, ENDS, None, np.random.default_rng(0))
    gold, n = [str(k) for k in truth.tolist()], family.n
    begin = time.process_time()
    run.begin(WATCH)
    start = time.process_time() - begin
    first = compare(run.slots().tolist(), gold).vi
    before, begin = run.sampler.told, time.process_time()
    for _ in range(SWEEPS):
        run.sweep(WATCH)
    whole = (time.process_time() - begin) / SWEEPS
    after = run.sampler.told
    spent = [(getattr(after, p) - getattr(before, p)) / SWEEPS for p in PHASES]
    # every fourth sweep begins with other hashes, the fifth for the first time
    begin = time.process_time()
    run.sampler.redirect(run.directions.permuted(np.random.default_rng(1)))
    spent[0] = (time.process_time() - begin) / rules.rehash
    proposed = after.proposed - before.proposed
    moved = (after.moved - before.moved) / max(proposed, 1)
    scores = compare(run.slots().tolist(), gold)
    return [
        f"{n:,}",
        f"{clusters:,}",
        str(bits),
        str(tries),
        *(f"{seconds / n * 1e6:.1f}" for seconds in [*spent, whole + spent[0], start]),
        f"{moved:.3f}",
        f"{first:.3f}",
        f"{scores.vi:.3f}",
        f"{scores.clusters:,}",
    ]


def converging(truth: IntArray, data: SparseCounts) -> Iterator[list[str]]:
    """Rows of the table of settings, from a random grouping; the uncollapsed sampler is last."""
    gold, k, n = [str(one) for one in truth.tolist()], 100, len(truth)
    runs: list[tuple[list[str], MixtureRun]] = []
    for bits, tries, temperature, taylor in SETTINGS:
        rng = np.random.default_rng(3)
        rules = FastExRules(k, bits, 2, tries, _REHASH, 0.05, temperature, taylor)
        start = clusters_of(rng.integers(k, size=n))
        said = [str(bits), str(tries), "fitted" if temperature is None else "1", taylor]
        family = DocumentFamily(data, taylor)
        runs.append((said, FastExRun(family, Mixture(float(k), k), rules, ENDS, start, rng)))
    rng = np.random.default_rng(3)
    rival = UncollapsedRun(
        DocumentFamily(data), Mixture(float(k), k), ENDS, clusters_of(rng.integers(k, size=n)), rng
    )
    for said, run in [*runs, (["uncollapsed", "", "", ""], rival)]:
        run.begin(WATCH)
        spent, cells = 0.0, []
        for sweep in range(1, CHECKED[-1] + 1):
            begin = time.process_time()
            run.sweep(WATCH)
            spent += time.process_time() - begin
            if sweep in CHECKED:
                scores = compare(run.slots().tolist(), gold)
                cells.append(f"{scores.vi:.2f}")
        moved = ""
        if isinstance(run, FastExRun):
            moved = f"{run.sampler.moved / run.sampler.proposed:.3f}"
        per_document = f"{spent / CHECKED[-1] / n * 1e6:.1f}"
        yield [*said, per_document, *cells, f"{scores.bcubed_f1_item_mean:.2f}", moved]


def uncollapsed(family: DocumentFamily, clusters: int) -> float:
    """Microseconds a document of one sweep."""
    rng = np.random.default_rng(0)
    start = clusters_of(rng.integers(clusters, size=family.n))
    run = UncollapsedRun(family, Mixture(float(clusters), clusters), ENDS, start, rng)
    run.begin(WATCH)
    begin = time.process_time()
    run.draw_memberships(WATCH)
    return (time.process_time() - begin) / family.n * 1e6


def exact(clusters: int) -> float:
    """Microseconds a document of exact Gibbs in NumPy, by the live table, at the truth."""
    mixture = DocumentMixture(EXACT_DOCUMENTS, clusters)
    fragments = mixture.fragments(np.random.default_rng([16, clusters]))
    likelihood = DirichletMultinomial(concentration=mixture.concentration)
    likelihood.fit(fragments)
    grouping = Grouping(len(fragments))
    model = model_of(likelihood, fragments, grouping)
    kernel = GibbsKernel(model, math.log(clusters))
    labels = np.unique([fragment.label for fragment in fragments], return_inverse=True)[1]
    model.read(range(len(fragments)))
    grouping.begin(clusters_of(labels))
    model.regrouped(())
    rng = np.random.default_rng(0)
    begin = time.process_time()
    for _ in range(EXACT_STEPS):
        kernel.propose(grouping, rng)
    return (time.process_time() - begin) / EXACT_STEPS * 1e6


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="100,000 documents")
    n = 100_000 if parser.parse_args().full else 10_000
    os.environ[WORKERS] = "1"
    head = ["documents", "clusters", "bits", "tries", "hashing", "updates", "hashing clusters"]
    head += ["proposals", "acceptance", "a sweep", "start", "moved", "VI, start", "VI", "found"]
    rows, rivals = [], []
    for clusters in (100, 1000):
        truth, family = drawn(n, clusters)
        print(f"{n:,} documents of {clusters:,} clusters are drawn", flush=True)
        for bits, tries in HASHES:
            rows.append(timed(truth, family, clusters, bits, tries))
            print(rows[-1], flush=True)
        rivals.append([f"{clusters:,}", f"{uncollapsed(family, clusters):,.0f}"])
        rivals[-1].append(f"{exact(clusters):,.0f}")
        print(rivals[-1], flush=True)
    sizes = [n // 64, n // 16, n // 4, n]
    by_size = [timed(*drawn(size, 100), 100, *HASHES[-1]) for size in sizes]
    per_document = [float(row[9]) for row in by_size]
    slope = np.polyfit(np.log(sizes), np.log(per_document), 1)[0]
    print(table(head, rows), "", table(head, by_size), "", sep="\n")
    print(f"slope of log time a document by log documents: {slope:.2f}\n")
    print(table(["clusters", "uncollapsed", "exact Gibbs, 5,000 documents"], rivals), "", sep="\n")
    head = ["bits", "tries", "temperature", "theta*", "us a document"]
    head += [f"VI, {sweeps} sweeps" for sweeps in CHECKED]
    truth, family = drawn(10_000, 100)
    print(table([*head, "F1", "accepted"], list(converging(truth, family.data))))


if __name__ == "__main__":
    main()
