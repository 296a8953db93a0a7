"""The kit itself can fail: each broken plugin is caught by the test of the law it breaks."""

from __future__ import annotations

import inspect
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbforge import registry
from kbforge.contracts import (
    Ending,
    FloatArray,
    Fragment,
    IntArray,
    OnBad,
    View,
)
from kbforge.testing import (
    Categorical,
    ClustererContract,
    Contract,
    ExporterContract,
    LikelihoodContract,
    SerializerContract,
    SourceContract,
    UniformLikelihood,
)


class TestCategorical(LikelihoodContract):
    def make(self) -> Any:
        return Categorical()


class TestUniform(LikelihoodContract):
    def make(self) -> Any:
        return UniformLikelihood(-0.5)


class OrderMatters(Categorical):
    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        first = [float(len(c[0].names[0])) if c else 0.0 for c in clusters]
        return super().log_marginal(clusters) - np.array(first)


class Drifts(Categorical):
    calls = itertools.count()

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        return super().log_marginal(clusters) * (1 + 1e-12 * next(self.calls))


class ReadsLabels(Categorical):
    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        labels = [len({f.label for f in cluster if f.label}) for cluster in clusters]
        return super().log_marginal(clusters) - np.array(labels)


class Forgets(Categorical):
    def live_clusters(self) -> Any:
        table: Any = super().live_clusters()
        table.release = lambda slots: None
        extend = table.extend

        def keeping(x: str, parents: IntArray, children: IntArray) -> None:
            known = [table._counts.get(child) for child in children.tolist()]
            extend(x, parents, children)
            for child, counts in zip(children.tolist(), known, strict=True):
                if counts is not None:  # a slot that was not cleared before its second life
                    table._counts[child] += counts

        table.extend = keeping
        return table


def spoiled(name: str, method: str, spoil: Callable[[Any], Any]) -> Any:
    """A likelihood whose tables have one method replaced, made from the right one."""

    class Spoiled(registry.load("likelihoods", name)):  # type: ignore[misc]
        def live_clusters(self) -> Any:
            table = super().live_clusters()
            setattr(table, method, spoil(getattr(table, method)))
            return table

    return Spoiled()


LOOKS_AT_THE_FIRST = spoiled(
    "attributes", "log_predictive_of", lambda score: lambda x, slots: score(x, np.sort(slots))
)


class NotANumber(Categorical):
    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        return np.full(len(clusters), np.nan)


class SpoiledPosterior:
    """The greedy clusterer, its posterior spoiled by `change`."""

    def __init__(self, change: Any) -> None:
        self._change, self._calls = change, itertools.count()

    def cluster(self, fragments: Any, spec: Any, rng: Any, on_step: Any = None) -> Any:
        inner = registry.create("clusterers", "smc", {"particles": 5})
        found = inner.cluster(fragments, spec, rng, on_step)
        return self._change(found, fragments, next(self._calls))


def loses_one(found: Any, fragments: Any, call: int) -> Any:
    block = found.subproblems[0]
    particles = tuple(
        replace(p, clusters=(p.clusters[0][1:], *p.clusters[1:])) for p in block.particles
    )
    return replace(found, subproblems=(replace(block, particles=particles),))


def repeats_particle(found: Any, fragments: Any, call: int) -> Any:
    block = found.subproblems[0]
    particles = (block.particles[0], *block.particles)
    return replace(found, subproblems=(replace(block, particles=particles),))


def counts_calls(found: Any, fragments: Any, call: int) -> Any:
    return replace(found, model_evaluations=call)


def reads_labels(found: Any, fragments: Any, call: int) -> Any:
    return replace(found, model_evaluations=sum(f.label is not None for f in fragments))


def rounds(found: Any, fragments: Any, call: int) -> Any:
    return replace(found, log_posterior=float(round(found.log_posterior)))


def pretends(found: Any, fragments: Any, call: int) -> Any:
    return replace(found, ended=Ending.DONE)


class LinesSource:
    """One name a line, read at once, bad ones left out without a word, perhaps the last, too."""

    def __init__(self, drops: bool = False) -> None:
        self._drops = drops

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        lines = Path(inputs[0]).read_text(encoding="utf-8").splitlines()
        fragments = [
            Fragment(f"{i}", {"name": (line,), "also": tuple(line + c for c in "abc")})
            for i, line in enumerate(lines)
            if line != "bad"
        ]
        yield from fragments[: len(fragments) - self._drops]


def lines(self: object, n: int) -> bytes:
    return b"".join(b"%d %s\n" % (i, b"x" * 200) for i in range(n))


def bad_lines(self: object) -> dict[str, bytes]:
    return {"bad": b"one\nbad\ntwo\n"}


class RawLines:
    """Ids and values with nothing escaped, all at the end."""

    def export(self, view: View, target: str) -> None:
        held = list(view.entities())
        out = sys.stdout.buffer if target == "-" else open(target, "ab")  # noqa: SIM115
        for entity in held:
            values = [v.value for vs in entity.properties.values() for v in vs]
            out.write("\t".join([entity.id, *values]).encode() + b"\n")
        out.close()


def parse_lines(self: object, target: Path) -> list[tuple[str, set[str]]]:
    rows = [line.split("\t") for line in target.read_bytes().decode().split("\n")[:-1]]
    return [(row[0], set(row[1:])) for row in rows]


class Twice(RawLines):
    """Reads the view again, and leaves what it wrote before it failed."""

    def export(self, view: View, target: str) -> None:
        with open(target, "wb") as out:
            for entity in [*view.entities(), *view.entities()]:
                out.write(entity.id.encode())


class InOrderGiven:
    def serialize(self, fragments: Sequence[Fragment]) -> str:
        return json.dumps([f.to_json()["properties"] for f in fragments], indent=1)

    def parse(self, text: str) -> Any:
        return json.loads(text)


MEMBERS: dict[type[Contract], dict[str, Any]] = {
    SourceContract: {"document": lines, "bad_documents": bad_lines},
    ExporterContract: {"parse": parse_lines},
}
greedy = SpoiledPosterior
BROKEN: list[tuple[type[Contract], str, Any]] = [
    (LikelihoodContract, "test_exchangeable", OrderMatters()),
    (LikelihoodContract, "test_deterministic", Drifts()),
    (LikelihoodContract, "test_labels_are_not_read", ReadsLabels()),
    (LikelihoodContract, "test_live_clusters_branch_release_and_reuse_slots", Forgets()),
    (LikelihoodContract, "test_predictives_sum_to_the_marginal_in_any_order", OrderMatters()),
    (LikelihoodContract, "test_never_nan_nor_certain_beyond_measure", NotANumber()),
    (LikelihoodContract, "test_a_few_clusters_score_as_among_all", LOOKS_AT_THE_FIRST),
    (
        ClustererContract,
        "test_every_fragment_is_in_one_cluster_of_every_particle",
        greedy(loses_one),
    ),
    (ClustererContract, "test_particles_of_a_subproblem_are_distinct", greedy(repeats_particle)),
    (ClustererContract, "test_weights_are_normalised_and_sorted", greedy(repeats_particle)),
    (ClustererContract, "test_same_seed_same_posterior", greedy(counts_calls)),
    (ClustererContract, "test_labels_are_not_read", greedy(reads_labels)),
    (ClustererContract, "test_log_posterior_is_that_of_the_point_estimate", greedy(rounds)),
    (ClustererContract, "test_an_interrupt_keeps_the_prefix", greedy(pretends)),
    (SourceContract, "test_every_good_record_is_read", LinesSource(drops=True)),
    (SourceContract, "test_memory_does_not_grow_with_the_input", LinesSource()),
    (SourceContract, "test_bad_records_are_handed_over_and_good_ones_kept", LinesSource()),
    (ExporterContract, "test_every_entity_once_and_values_stay_data", RawLines()),
    (ExporterContract, "test_every_entity_once_and_values_stay_data", Twice()),
    (ExporterContract, "test_standard_output_has_the_same_bytes_and_stays_open", RawLines()),
    (ExporterContract, "test_writes_as_it_reads", RawLines()),
    (ExporterContract, "test_a_failure_leaves_what_was_there", Twice()),
    (ExporterContract, "test_memory_does_not_grow_with_the_entities", RawLines()),
    (SerializerContract, "test_order_and_repetition_of_values_do_not_count", InOrderGiven()),
    (SerializerContract, "test_one_line_of_unicode", InOrderGiven()),
]


@pytest.mark.parametrize(
    ("kit", "law", "plugin"), BROKEN, ids=[f"{kit.kind}-{law}" for kit, law, _ in BROKEN]
)
def test_a_broken_plugin_is_caught(kit, law, plugin, tmp_path, monkeypatch):
    given = {"tmp_path": tmp_path, "monkeypatch": monkeypatch, "known": True}
    make: Any = plugin if isinstance(plugin, type) else lambda: plugin
    broken = type("Broken", (kit,), {**MEMBERS.get(kit, {}), "make": lambda self: make()})
    test = getattr(broken(), law)
    with pytest.raises(AssertionError):
        test(**{name: given[name] for name in inspect.signature(test).parameters})
