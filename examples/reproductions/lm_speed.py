"""Speed of scoring sets with the language model, beside the straightforward way.

    KBFORGE_DATA=... python examples/reproductions/lm_speed.py [--fragments N] [--sets N]

A real clustering run (wd200_dev, split SMC, P = M = 100, the bundle's surrogate and alpha) records
which clusters with which new fragment the engine asks the likelihood for, in order.

The first table scores a random sample of these sets by turns: *straightforward* is random batches
of 32, padded, with the logits, the mask and the log-softmax of all positions, [B, T, V]; *scorer*
is the product's. Our grammar has no forced positions, so a set has fewer tokens than with a
tokenizer that reads character by character: compare by sets a second.

The second table is the whole run. An evaluation is the score of one cluster with the new fragment
(at most M a step), or of the fragment alone. The straightforward way scores each in order, without
looking for equal ones; its rate is measured on a stretch of consecutive evaluations, and the time
of the steps is not charged to it.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import torch
from shell import data_folder, table

from kbforge.clustering.compiled import CompiledRun
from kbforge.contracts import Cluster, FloatArray, Fragment, IntArray
from kbforge.files.fragments import read_fragments
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import cluster
from kbforge.models.bundle import read_bundle
from kbforge_lm.likelihoods.gpt.likelihood import shipped_model
from kbforge_lm.likelihoods.gpt.model import GPT, GptShape, LanguageModel, from_bundle
from kbforge_lm.likelihoods.gpt.scoring import SequenceScorer
from kbforge_training.lm.batches import states_of

SET = "wd200_dev"
BATCH = 32
SEED = 0
CPU = torch.device("cpu")

Tokens = Sequence[int]


def straightforward(model: LanguageModel, sequences: Sequence[Tokens]) -> list[float]:
    """Nats of each sequence: batches of 32 as they come, nothing left out, nothing shared."""
    tokenizer, nats = model.tokenizer, []
    illegal = torch.from_numpy(~tokenizer.table.legal)
    for first in range(0, len(sequences), BATCH):
        batch = sequences[first : first + BATCH]
        tokens = np.zeros((len(batch), 1 + max(map(len, batch))), dtype=np.int64)
        real = torch.zeros(len(batch), tokens.shape[1] - 1)
        for row, content in enumerate(batch):
            tokens[row, 1 : 1 + len(content)] = content
            real[row, : len(content)] = 1
        states = torch.from_numpy(states_of(tokenizer.table, tokens))
        x = torch.from_numpy(tokens)
        with torch.inference_mode():
            logits = model.gpt.logits(model.gpt(x[:, :-1]))
            logits = logits.masked_fill(illegal[states], -torch.inf)
            found = logits.log_softmax(-1).gather(-1, x[:, 1:, None])[..., 0]
            nats += (found.masked_fill(real == 0, 0.0)).sum(1).tolist()
    return nats


@dataclass
class Recording:
    """What a clustering run asked for."""

    # the fragments of each cluster with the new one, in order
    evaluations: list[tuple[int, ...]] = field(default_factory=list)


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record what steps ask a black box for."""
    recording = Recording()
    clusters = CompiledRun.clusters

    def recording_clusters(self: CompiledRun, slots: IntArray) -> tuple[list[Cluster], FloatArray]:
        found = clusters(self, slots)
        new = self.n_numbers
        recording.evaluations += [(*members, new) for members in found[0]] + [(new,)]
        return found

    with mock.patch.object(CompiledRun, "clusters", recording_clusters):
        yield recording


def seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def with_shape_of(model: LanguageModel, **sizes: int) -> LanguageModel:
    """Random weights of another shape, with the same tokenizer."""
    torch.manual_seed(SEED)
    shape = GptShape(model.tokenizer.table.n_tokens, **sizes)
    return dataclasses.replace(model, gpt=GPT(shape).eval())


def scoring_rows(
    name: str, model: LanguageModel, sequences: Sequence[Tokens], rounds: int
) -> list[list[str]]:
    """The ways to score, in turn, again and again."""
    automatic = SequenceScorer(model, CPU).precision
    ways: dict[str, Callable[[], object]] = {
        "straightforward": lambda: straightforward(model, sequences)
    }
    # without units for it, bf16 takes many times as long, and nobody would choose it
    for precision in ("fp32",) if automatic == "fp32" else ("fp32", "bf16"):
        scorer = SequenceScorer(model, CPU, precision)
        chosen = ", what the probe chooses" if precision == automatic else ""
        ways[f"scorer, {precision}{chosen}"] = lambda scorer=scorer: scorer.score(sequences)
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, action in ways.items():
            taken[way].append(seconds(action))
    n_tokens = sum(map(len, sequences))
    rows = []
    for way, times in taken.items():
        ratio = statistics.median(
            slow / fast for slow, fast in zip(taken["straightforward"], times, strict=True)
        )
        median = statistics.median(times)
        rate = [f"{n_tokens / median:,.0f}", f"{len(sequences) / median:,.0f}"]
        rows.append([name, way, *rate, f"{ratio:.2f}"])
    return rows


def run_rows(
    model: LanguageModel, fragments: Sequence[Fragment], stretch: int, rounds: int
) -> tuple[list[list[str]], list[tuple[int, ...]]]:
    """The whole run beside the straightforward way; and the evaluations."""
    # without a wave, so that each set is asked for in its own step
    options = {"clusterer": {"wave": 1}}
    choices = RunOptions(
        likelihood=str(shipped_model()), particles=100, max_evals=100, options=options
    )
    with recorded() as recording:
        cluster(fragments, choices)
    asked = recording.evaluations
    done = [cluster(fragments, choices) for _ in range(rounds)]
    wall = statistics.median(run.seconds for run in done)
    begin = (len(asked) - stretch) // 2
    some = [encoded(model, fragments, one) for one in asked[begin : begin + stretch]]
    each = statistics.median(
        seconds(lambda: straightforward(model, some)) / len(some) for _ in range(rounds)
    )
    rate, slow_rate = len(asked) / wall, 1 / each
    distinct = done[0].posterior.model_evaluations
    rows = [
        ["fragments", f"{len(fragments):,}"],
        ["evaluations: clusters with a new fragment, new fragments alone", f"{len(asked):,}"],
        ["of them different in content in the run, so scored", f"{distinct:,}"],
        ["seconds, all included", f"{wall:.1f}"],
        ["evaluations/s, all included", f"{rate:,.0f}"],
        ["evaluations/s, straightforward", f"{slow_rate:,.0f}"],
        ["ratio", f"{rate / slow_rate:.1f}"],
    ]
    return rows, asked


def encoded(model: LanguageModel, fragments: Sequence[Fragment], one: Sequence[int]) -> Tokens:
    return model.tokenizer.encode(model.tokenizer.text([fragments[i] for i in one]))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fragments", type=int, help="only the first of them")
    parser.add_argument("--sets", type=int, default=400, help="how many the first table scores")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    path = str(data_folder() / f"confusable/{SET}.jsonl")
    fragments = list(read_fragments(path, limit=options.fragments))
    shipped = from_bundle(read_bundle(shipped_model()), "gpt")
    run, asked = run_rows(shipped, fragments, 2 * options.sets, min(options.rounds, 3))
    distinct = sorted({tuple(sorted(one)) for one in asked})
    chosen = np.random.default_rng(SEED).permutation(len(distinct))[: options.sets]
    sequences = [encoded(shipped, fragments, distinct[i]) for i in chosen]
    large = with_shape_of(shipped)
    rows = scoring_rows("8.8 M, random weights", large, sequences, options.rounds)
    rows += scoring_rows("shipped", shipped, sequences, options.rounds)
    mean = sum(map(len, sequences)) / len(sequences)
    print(f"{torch.get_num_threads()} threads; {len(sequences)} sets, {mean:.0f} tokens on average")
    print(table(["model", "way", "tokens/s", "sets/s", "ratio"], rows), end="\n\n")
    print(table([f"{SET}, P = M = 100", ""], run))


if __name__ == "__main__":
    main()
