"""The kit itself can fail: each broken plugin is caught by the test of the law it breaks."""

from __future__ import annotations

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
    CandidateIndex,
    Ending,
    FloatArray,
    Fragment,
    Grammar,
    IntArray,
    OnBad,
    View,
)
from kbforge.errors import GrammarError
from kbforge.testing import (
    Categorical,
    ClustererContract,
    Contract,
    ExporterContract,
    GrammarContract,
    IndexContract,
    LikelihoodContract,
    ResamplerContract,
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


class LeavesATrace(registry.load("likelihoods", "gaussian")):  # type: ignore[misc]
    def live_clusters(self) -> Any:
        table = super().live_clusters()
        table.remove = lambda x, slot: None
        return table


class MergesNothing(registry.load("likelihoods", "gaussian")):  # type: ignore[misc]
    def live_clusters(self) -> Any:
        table = super().live_clusters()
        table.merge = lambda slot, into: None
        return table


class LooksAtTheFirst(registry.load("likelihoods", "attributes")):  # type: ignore[misc]
    def live_clusters(self) -> Any:
        table = super().live_clusters()
        score = table.log_predictive_of
        table.log_predictive_of = lambda x, slots: score(x, np.sort(slots))
        return table


class NotANumber(Categorical):
    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        return np.full(len(clusters), np.nan)


def contract(base: type[Contract], plugin: Any, **members: object) -> Any:
    made = type("Broken", (base,), members | {"make": lambda self: plugin})
    return made()


@pytest.mark.parametrize(
    ("law", "plugin"),
    [
        ("test_exchangeable", OrderMatters()),
        ("test_deterministic", Drifts()),
        ("test_labels_are_not_read", ReadsLabels()),
        ("test_live_clusters_branch_release_and_reuse_slots", Forgets()),
        ("test_predictives_sum_to_the_marginal_in_any_order", OrderMatters()),
        ("test_never_nan_nor_certain_beyond_measure", NotANumber()),
        ("test_fragments_come_and_go_without_a_trace", LeavesATrace()),
        ("test_clusters_merge", MergesNothing()),
        ("test_a_few_clusters_score_as_among_all", LooksAtTheFirst()),
    ],
)
def test_a_broken_likelihood_is_caught(law: str, plugin: Any) -> None:
    with pytest.raises(AssertionError):
        getattr(contract(LikelihoodContract, plugin), law)()


class KeepsLightest:
    keeps_heaviest = True

    def resample(self, w: FloatArray, size: int, rng: Any) -> tuple[IntArray, FloatArray]:
        kept = np.arange(len(w))[-size:]
        return kept, w[kept]


class Biased:
    """Keeps the first always, and one of the others at its own weight."""

    keeps_heaviest = False

    def resample(
        self, w: FloatArray, size: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        if len(w) <= size:
            return np.arange(len(w)), w
        kept = np.sort(rng.choice(len(w), size, replace=False))
        return kept, w[kept]


class Normalises:
    keeps_heaviest = True

    def resample(self, w: FloatArray, size: int, rng: Any) -> tuple[IntArray, FloatArray]:
        kept = np.arange(min(size, len(w)))
        return kept, w[kept] - np.logaddexp.reduce(w[kept])


@pytest.mark.parametrize(
    ("law", "plugin"),
    [
        ("test_deterministic_members_keep_the_heaviest", KeepsLightest()),
        ("test_impossible_particles_go_first", KeepsLightest()),
        ("test_drawing_members_are_unbiased", Biased()),
        ("test_nothing_to_drop_is_unchanged", Normalises()),
        ("test_a_constant_added_is_a_constant_added", Normalises()),
    ],
)
def test_a_broken_resampler_is_caught(law: str, plugin: Any) -> None:
    with pytest.raises(AssertionError):
        getattr(contract(ResamplerContract, plugin, draws=1000), law)()


class Spoiled:
    """The greedy clusterer, its posterior spoiled by `change`."""

    def __init__(self, change: Any) -> None:
        self._change, self._calls = change, itertools.count()

    def cluster(self, fragments: Any, problem: Any, rng: Any, on_step: Any = None) -> Any:
        inner = registry.create("clusterers", "smc", {"particles": 5})
        found = inner.cluster(fragments, problem, rng, on_step)
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


@pytest.mark.parametrize(
    ("law", "change"),
    [
        ("test_every_fragment_is_in_one_cluster_of_every_particle", loses_one),
        ("test_particles_of_a_subproblem_are_distinct", repeats_particle),
        ("test_weights_are_normalised_and_sorted", repeats_particle),
        ("test_same_seed_same_posterior", counts_calls),
        ("test_labels_are_not_read", reads_labels),
        ("test_log_posterior_is_that_of_the_point_estimate", rounds),
        ("test_an_interrupt_keeps_the_prefix", pretends),
    ],
)
def test_a_broken_clusterer_is_caught(law: str, change: Any) -> None:
    with pytest.raises(AssertionError):
        getattr(contract(ClustererContract, Spoiled(change)), law)()


class LinesSource:
    """One name a line; what is wrong with it is a parameter."""

    def __init__(self, fault: str) -> None:
        self._fault = fault

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        lines = Path(inputs[0]).read_text(encoding="utf-8").splitlines()
        fragments = [
            Fragment(f"{i}", {"name": (line,), "also": tuple(line + c for c in "abc")})
            for i, line in enumerate(lines)
            if line != "bad"
        ]
        if self._fault == "drops":
            fragments = fragments[:-1]
        yield from fragments


def lines(self: object, n: int) -> bytes:
    return b"".join(b"%d %s\n" % (i, b"x" * 200) for i in range(n))


def bad_lines(self: object) -> dict[str, bytes]:
    return {"bad": b"one\nbad\ntwo\n"}


@pytest.mark.parametrize(
    ("law", "fault"),
    [
        ("test_every_good_record_is_read", "drops"),
        ("test_memory_does_not_grow_with_the_input", "reads it whole"),
        ("test_bad_records_are_handed_over_and_good_ones_kept", "silent"),
    ],
)
def test_a_broken_source_is_caught(law: str, fault: str, tmp_path: Path) -> None:
    source = LinesSource(fault)
    members = {"document": lines, "bad_documents": bad_lines}
    with pytest.raises(AssertionError):
        getattr(contract(SourceContract, source, **members), law)(tmp_path)


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


@pytest.mark.parametrize(
    ("law", "plugin", "arguments"),
    [
        ("test_every_entity_once_and_values_stay_data", RawLines, ("tmp_path", False)),
        ("test_every_entity_once_and_values_stay_data", Twice, ("tmp_path", True)),
        (
            "test_standard_output_has_the_same_bytes_and_stays_open",
            RawLines,
            ("tmp_path", "monkeypatch"),
        ),
        ("test_writes_as_it_reads", RawLines, ("monkeypatch",)),
        ("test_a_failure_leaves_what_was_there", Twice, ("tmp_path",)),
        ("test_memory_does_not_grow_with_the_entities", RawLines, ("tmp_path",)),
    ],
)
def test_a_broken_exporter_is_caught(
    law: str, plugin: type, arguments: Sequence[Any], request: pytest.FixtureRequest
) -> None:
    given = [request.getfixturevalue(a) if isinstance(a, str) else a for a in arguments]
    with pytest.raises(AssertionError):
        getattr(contract(ExporterContract, plugin(), parse=parse_lines), law)(*given)


class InOrderGiven:
    def serialize(self, fragments: Sequence[Fragment]) -> str:
        return json.dumps([f.to_json()["properties"] for f in fragments], indent=1)

    def parse(self, text: str) -> Any:
        return json.loads(text)


@pytest.mark.parametrize(
    "law", ["test_order_and_repetition_of_values_do_not_count", "test_one_line_of_unicode"]
)
def test_a_broken_serializer_is_caught(law: str) -> None:
    with pytest.raises(AssertionError):
        getattr(contract(SerializerContract, InOrderGiven()), law)()


def flat(sets: str) -> Grammar:
    pair = 'pair = STRING ":" STRING\nobject = "{" pair ("," pair)* "}"'
    return Grammar("flat", 1, "flat-json", f"set = {sets}\n{pair}")


@pytest.mark.parametrize(
    ("law", "grammar"),
    [
        ("test_it_says_what_it_is", replace(flat("object+"), version=0)),
        ("test_it_says_what_it_is", replace(flat("object+"), serializer="none")),
        ("test_wherever_a_text_can_go_on_there_is_a_choice", flat('object ";"?')),
    ],
)
def test_a_broken_grammar_is_caught(law: str, grammar: Grammar) -> None:
    with pytest.raises(AssertionError):
        getattr(contract(GrammarContract, grammar), law)()


@pytest.mark.parametrize(
    ("law", "grammar", "error"),
    [
        ("test_texts_are_accepted_and_tokens_give_them_back", flat("object"), GrammarError),
        ("test_texts_are_accepted_and_tokens_give_them_back", flat('object "," '), GrammarError),
        ("test_what_legal_tokens_spell_is_accepted", flat('(object "\ud800"?)+'), UnicodeError),
    ],
)
def test_a_grammar_of_other_texts_is_caught(
    law: str, grammar: Grammar, error: type[Exception]
) -> None:
    with pytest.raises(error):
        getattr(contract(GrammarContract, grammar), law)()


class Keys(CandidateIndex):
    """An index by the words of the name, spoiled by what `spoil` makes of the numbers."""

    families, shared = 8, 1

    def __init__(self, spoil: Callable[[Fragment, list[int]], list[int]]) -> None:
        self._spoil = spoil

    def keys(self, fragment: Fragment) -> list[int]:
        words = dict.fromkeys(fragment.names[0].lower().split())
        return self._spoil(fragment, [int.from_bytes(word.encode()) for word in words])


class TestWords(IndexContract):
    def make(self) -> Any:
        return Keys(lambda _, keys: keys)


def as_asked() -> Callable[[Fragment, list[int]], list[int]]:
    """A key of one's own for all but the first five questions."""
    asked = itertools.count()
    return lambda fragment, keys: keys if next(asked) < 5 else [*keys, 10**9 + next(asked)]


def closed(index: Keys) -> Keys:
    index.families = 0
    return index


@pytest.mark.parametrize(
    ("law", "plugin"),
    [
        ("test_distinct_whole_numbers", Keys(lambda _, keys: keys * 2)),
        ("test_distinct_whole_numbers", Keys(lambda _, keys: [key + 0.5 for key in keys])),  # type: ignore[misc]
        ("test_its_bounds_leave_something_to_compare", closed(Keys(lambda _, keys: keys))),
        ("test_some_fragments_share_a_key_and_some_do_not", Keys(lambda _, keys: [1])),
        ("test_some_fragments_share_a_key_and_some_do_not", Keys(lambda _, keys: [])),
        ("test_deterministic", Keys(as_asked())),
        ("test_labels_and_ids_are_not_read", Keys(lambda x, keys: [*keys, hash(x.id)])),
        ("test_labels_and_ids_are_not_read", Keys(lambda x, keys: keys[: 2 * bool(x.label)])),
        ("test_fragments_that_it_has_not_seen_have_keys_too", Keys(lambda _, keys: [])),
    ],
)  # fmt: skip
def test_a_broken_index_is_caught(law: str, plugin: Any) -> None:
    with pytest.raises(AssertionError):
        getattr(contract(IndexContract, plugin), law)()


def test_an_index_that_remembers_who_was_asked_about_is_caught() -> None:
    class Remembers(Keys):
        def __init__(self) -> None:
            super().__init__(lambda _, keys: keys if next(self.count) < 5 else [])
            self.count = itertools.count()

    with pytest.raises(AssertionError):
        type(
            "Broken", (IndexContract,), {"make": lambda self: Remembers()}
        )().test_who_was_asked_about_first_does_not_count()
