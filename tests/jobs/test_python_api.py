"""`from kbforge import ...`: light, checked as the command line is, and giving the same bytes."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

import kbforge
from kbforge import (
    Interrupted,
    KBForgeError,
    cluster,
    evaluate,
    export,
    load,
    read_entities,
    registry,
    report,
    review,
    update,
)
from kbforge.contracts import Likelihood
from kbforge.errors import BadRecord, as_option, option, spelled
from kbforge.fit.choices import RunOptions
from kbforge.fit.review import Evidence
from kbforge.indexes.selective import Selective
from kbforge.jobs.api import ClusterKeywords, as_keyword
from kbforge.kernel.binding import WORKERS
from kbforge_plugins.clusterers.sequential import GreedyClusterer
from kbforge_plugins.likelihoods.names import Names
from tests.jsonl import write_lines
from tests.people import people as people_of
from tests.program import Run

NAMES = ["ada lovelace", "ada lovelace", "a lovelace", "bo ek", "bo ekk", "cyd orr"] * 3


@pytest.fixture
def people(tmp_path: Path) -> Path:
    records = (
        {"id": f"p{number}", "properties": {"name": [name]}, "label": name[:2]}
        for number, name in enumerate(NAMES)
    )
    return write_lines(tmp_path / "people.jsonl", records)


def imported_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has after some code."""
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.split())


def imported_packages(code: str) -> set[str]:
    return {name.partition(".")[0] for name in imported_by(code)}


def test_importing_kbforge_imports_nothing_else() -> None:
    modules = imported_by("import kbforge")
    assert {name for name in modules if name.startswith("kbforge")} == {
        "kbforge",
        "kbforge.version",
    }
    # a .pth file of the environment may bring packages to every program
    assert imported_packages("import kbforge") <= {
        *("kbforge", *imported_packages("")),
        *sys.stdlib_module_names,
    }


def test_the_functions_bring_neither_torch_nor_the_command_line() -> None:
    modules = imported_by("from kbforge import *")
    assert "kbforge.jobs.api" in modules
    assert not modules & {"torch", "typer", "kbforge_plugins"}


def test_every_name_is_there_and_listed() -> None:
    for name in kbforge.__all__:
        assert getattr(kbforge, name) is not None
    assert set(kbforge.__all__) <= set(dir(kbforge))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kbforge.nothing  # noqa: B018


def test_no_name_is_that_of_a_room() -> None:
    rooms = {module.name for module in pkgutil.iter_modules(kbforge.__path__)}
    assert "clustering" in rooms
    assert rooms.isdisjoint(kbforge.__all__)


def test_the_keywords_are_the_choices() -> None:
    of_columns = ["id", "label", "map", "vector", "separator", "null"]
    choices = [field.name for field in fields(RunOptions)]
    assert list(get_type_hints(ClusterKeywords)) == choices + of_columns


# the command line's arguments, and the same as keywords
SAME: list[tuple[str, dict[str, Any]]] = [
    ("--likelihood bigram --alpha 3", {"likelihood": "bigram", "alpha": 3}),
    (
        "--likelihood bigram --set clusterer=smc --set particles=7 --seed 5",
        {"likelihood": "bigram", "clusterer": "smc", "particles": np.int64(7), "seed": 5},
    ),
    (
        "--likelihood bigram --set likelihood.scale=9 --set clusterer=split-smc"
        " --set clusterer.weights=marginal",
        {"likelihood": "bigram", "clusterer": "split-smc"}
        | {"options": {"likelihood": {"scale": 9}, "clusterer": {"weights": "marginal"}}},
    ),
    (
        "--likelihood attributes --set surrogate=bigram --set max-evals=4 --set index=selective",
        {"likelihood": "attributes", "surrogate": "bigram", "max_evals": 4, "index": "selective"},
    ),
]


@pytest.mark.parametrize(
    ("arguments", "keywords", "name"),
    [(*same, "kb.jsonl") for same in SAME] + [(*SAME[0], "kb.jsonl.gz")],
)
def test_python_writes_the_bytes_of_the_command_line(
    program: Run,
    people: Path,
    tmp_path: Path,
    arguments: str,
    keywords: dict[str, Any],
    name: str,
) -> None:
    (tmp_path / "cli").mkdir()
    ran = program("cluster", people, "-o", tmp_path / "cli" / name, "--json", *arguments.split())
    kb = cluster(load(people), **keywords)
    assert kb.write(tmp_path / name) == str(tmp_path / name)
    assert (tmp_path / name).read_bytes() == (tmp_path / "cli" / name).read_bytes()
    assert list(kb.entities) == list(read_entities(tmp_path / name))
    assert _untimed(kb.summary()) == _untimed(ran.json)


def _untimed(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if "second" not in name}


PARTICLES = {"particles": 4}
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("--alpha -1", {"alpha": -1}, "alpha"),
    ("--likelihood nosuch", {"likelihood": "nosuch"}, "nosuch"),
    ("--likelihood /nowhere/model", {"likelihood": Path("/nowhere/model")}, "/nowhere/model"),
    (
        "--alpha 1 --set calibration=c.toml",
        {"alpha": 1, "calibration": "c.toml"},
        "alpha and calibration both set alpha",
    ),
    (
        "--likelihood bigram --set max-evals=3",
        {"likelihood": "bigram", "max_evals": 3},
        "max_evals limits what a surrogate proposes, but there is none; name one with surrogate",
    ),
    (
        "--set index.most=3",
        {"options": {"index": {"most": 3}}},
        "options.index.most: there is no index; name one with index",
    ),
    ("--set likelihood.no=3", {"options": {"likelihood": {"no": 3}}}, "no"),
    (
        "--set particles=3 --set clusterer.particles=4",
        {"particles": 3, "options": {"clusterer": PARTICLES}},
        "particles and options.clusterer.particles mean the same",
    ),
]


@pytest.mark.parametrize(("arguments", "keywords", "said"), WRONG)
def test_wrong_keywords_get_the_sentences_of_wrong_options(
    program: Run, people: Path, tmp_path: Path, arguments: str, keywords: dict[str, Any], said: str
) -> None:
    ran = program("cluster", people, "-o", tmp_path / "kb.jsonl", *arguments.split())
    with pytest.raises(KBForgeError) as caught:
        cluster(load(people), **keywords)
    assert ran.code == caught.value.exit_code
    assert said in str(caught.value)
    assert "--" not in str(caught.value)
    # the words are those of the command line, but for the names of parameters
    plain = re.compile(r"--(set )?|options\.|[-_]|=?\"| ")
    on_line = ran.err.splitlines()[-1].removeprefix("kbforge: ")
    assert plain.sub("", str(caught.value)) == plain.sub("", on_line)


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"likelihod": "bigram"}, 'no option "likelihod" (did you mean "likelihood"?); '),
        ({"alpha": "ten"}, "cluster: alpha: expected a number, got ten"),
        ({"particles": 2.5}, "cluster: particles: expected a whole number, got 2.5"),
        ({"seed": -1}, "seed: expected a whole number from 0, got -1"),
        ({"max_evals": -1}, "max_evals: expected a whole number from 0, got -1"),
        ({"device": "tpu"}, "device: expected cpu or cuda, got tpu"),
        ({"likelihood": 3}, "likelihood: expected a name, a model folder or a Likelihood, got 3"),
        ({"options": 3}, "options: expected a dictionary, got 3"),
        ({"options": {"x": {}}}, 'unknown kind "x", expected one of clusterer, index, likelihood'),
        ({"options": {"index": 3}}, "options.index: expected a dictionary, got 3"),
    ],
)
def test_keywords_are_checked(people: Path, keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(KBForgeError) as caught:
        cluster(load(people), **keywords)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("named", "written"),
    [
        (("alpha",), ("--alpha", "alpha")),
        (("max-evals",), ("--set max-evals", "max_evals")),
        (("seed", 3), ("--seed 3", "seed=3")),
        (("exact", True), ("--set exact=true", "exact=True")),
        (("index", "none"), ("--set index=none", 'index="none"')),
        (
            ("clusterer.batch", 9),
            ("--set clusterer.batch=9", "options.clusterer.batch=9"),
        ),
        (("source.null",), ("--set source.null", "null")),
        (("gpu",), ("--gpu", 'device="cuda"')),
    ],
)
def test_each_door_spells_parameters_in_its_own_way(
    named: tuple[Any, ...], written: tuple[str, ...]
) -> None:
    for spelling, expected in zip((as_option, as_keyword), written, strict=True):
        with spelled(spelling):
            assert option(*named) == expected
    assert option(*named) == written[0]


def test_notes_speak_of_keywords(people: Path) -> None:
    (note, *_) = cluster(load(people)).notes
    assert "name another with likelihood" in note
    assert "--" not in note


def test_an_object_serves_where_a_name_does(people: Path) -> None:
    fragments = load(people)
    make: Callable[..., Any] = registry.create
    names = {"likelihood": "bigram", "surrogate": "attributes", "clusterer": "greedy"}
    objects = {
        "likelihood": make("likelihoods", "bigram", {"scale": 9}),
        "surrogate": make("likelihoods", "attributes"),
        "clusterer": make("clusterers", "greedy"),
    }
    by_name: dict[str, Any] = {**names, "options": {"likelihood": {"scale": 9}}}
    named, made = (cluster(fragments, **by, max_evals=5, alpha=2) for by in (by_name, objects))
    # a map of confidence belongs to a name
    assert [x.fragments for x in made.entities] == [x.fragments for x in named.entities]
    indexes = ("selective", Selective())
    named, made = (cluster(fragments, likelihood="bigram", alpha=2, index=i) for i in indexes)
    assert made.entities == named.entities


@pytest.mark.parametrize("kind", ["likelihood", "surrogate", "index", "clusterer"])
def test_an_object_was_made_with_its_options(people: Path, kind: str) -> None:
    makes = {"index": Selective, "clusterer": GreedyClusterer}
    made = makes.get(kind, Names)()
    chosen: dict[str, Any] = {"likelihood": "attributes", kind: made}
    with pytest.raises(KBForgeError, match=rf"^options\.{kind}\.x: expected no options for a"):
        cluster(load(people), **chosen, options={kind: {"x": 1}})


def test_workers_change_nothing(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fragments, entities = load(people), []
    for number in ("1", "3"):
        monkeypatch.setenv(WORKERS, number)
        entities.append(cluster(fragments, alpha=5.0).entities)
    assert entities[0] == entities[1]


def test_a_black_box_without_a_table_clusters(people: Path) -> None:
    class OneEach(Likelihood):
        def log_marginal(self, clusters: Any) -> Any:
            return np.array([-99.0 * (len(cluster) > 1) for cluster in clusters])

    kb = cluster(load(people), likelihood=OneEach(), alpha=1)
    assert len(kb.entities) == len(NAMES)


def test_what_is_no_list_of_fragments_is_refused(people: Path) -> None:
    fragments = load(people)
    assert cluster(people).entities == cluster(str(people)).entities == cluster(fragments).entities
    with pytest.raises(KBForgeError, match="fragment 1: expected a Fragment, got x"):
        cluster([fragments[0], "x"])  # type: ignore[list-item]
    with pytest.raises(KBForgeError, match='fragment 2: expected a unique id, got "p0" again'):
        cluster([*fragments[:2], fragments[0]])
    with pytest.raises(KBForgeError, match="there are no fragments to cluster"):
        cluster([])


def test_load_reads_as_the_verb_does(program: Run, tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("key,name,town\nr1,Ada|A.,Lund\nr2,Bo,Oslo\nr2,Cy,Rome\n")
    out = tmp_path / "out.jsonl"
    options: dict[str, object] = {"id": "key", "separator": "|", "map": ["town=place"]}
    with pytest.raises(BadRecord, match=r"people\.csv:4: id: expected a unique id"):
        load(table, source="csv", **options)
    bad: list[BadRecord] = []
    fragments = load(table, source="csv", on_bad=lambda error, raw: bad.append(error), **options)
    program(
        *("load", "csv", table, "--id", "key", "--separator", "|", "--map", "town=place"),
        *("--on-error", "quarantine", "-o", out),
    )
    assert fragments == load(out)
    assert [fragment.id for fragment in fragments] == ["r1", "r2"]
    assert len(bad) == 1
    assert load(table, source="csv", limit=1, **options) == fragments[:1]
    assert load(out, out, limit=2) == fragments


def test_load_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    with pytest.raises(KBForgeError, match="load: expected a file to read, got none"):
        load()
    with pytest.raises(KBForgeError, match="cannot read"):
        load(tmp_path / "absent.jsonl")
    with pytest.raises(KBForgeError, match='there is no source "nosuch"; available: csv'):
        load("x", source="nosuch")
    with pytest.raises(KBForgeError, match='source csv has no option "ident"'):
        load("x", source="csv", ident="key")


def test_evaluate_and_export_do_what_the_verbs_do(
    program: Run, people: Path, tmp_path: Path
) -> None:
    fragments = load(people)
    kb = cluster(fragments, likelihood="bigram", alpha=3)
    path = kb.write(tmp_path / "kb.jsonl")
    scored = program("evaluate", path, people, "--json")
    assert evaluate(kb.entities, fragments).to_json() == scored.json
    with pytest.raises(KBForgeError, match="use partial to evaluate"):
        evaluate(kb.entities, fragments[:5])
    assert evaluate(kb.entities, fragments[:5], partial=True).only_in_kb == len(NAMES) - 5
    program("export", path, "--format", "csv", "-o", tmp_path / "cli.csv")
    assert export(kb.entities, tmp_path / "kb.csv", format="csv") == len(kb.entities)
    assert (tmp_path / "kb.csv").read_bytes() == (tmp_path / "cli.csv").read_bytes()
    with pytest.raises(KBForgeError, match='exporter csv has no option "sep"'):
        export(kb.entities, tmp_path / "kb.csv", format="csv", sep=";")


def test_a_review_in_python_keeps_each_answer_and_ends_where_it_is_told(tmp_path: Path) -> None:
    store = tmp_path / "kb.sqlite"
    update(store, people_of(60, 5, error=0.5), likelihood="attributes", alpha=30)
    asked: list[str] = []

    def ask(evidence: Evidence) -> bool | None:
        if len(asked) == 3:
            raise Interrupted
        asked.append(evidence.first.fragment.id)
        return None if len(asked) == 2 else False

    done = review(store, ask)
    assert done.told["decisions"] == [1, 2]
    assert len(asked) == 3
    assert len(review(store, lambda evidence: None, count=4).told["decisions"]) == 0


def test_the_report_in_python_is_the_page_of_the_command_line(tmp_path: Path, program: Run) -> None:
    store, page, same = tmp_path / "kb.sqlite", tmp_path / "a.html", tmp_path / "b.html"
    update(store, people_of(20, 5), likelihood="attributes", alpha=30)
    made = report(store, page, labels=True)
    program("report", store, "--labels", "-o", same)
    assert page.read_bytes() == same.read_bytes() == made.html.encode()
    with pytest.raises(KBForgeError, match=r"^the output .* is an input"):
        report(store, store)
    with pytest.raises(KBForgeError, match="which has its own fragments; labels uses"):
        report(store, page, fragments=same)
