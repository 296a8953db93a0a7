"""`--set index` of the verbs that cluster: which clusters a fragment is compared with."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.jsonl import groups_in, write_lines
from tests.program import Run

# the names share no character, let alone a word; only the towns can bring a pair together
NAMES = (("abcd", "Lund"), ("abcd", "Lund"), ("efgh", "Lund"), ("jklm", "Oslo"), ("nopq", "Rome"))
# so small an alpha puts any two fragments together that are compared at all
TOGETHER = ("--likelihood", "bigram", "--alpha", "1e-9", "--json")
NO_INDEX = "--set index.families: there is no index; name one with --set index"
VERBS = {
    "cluster": ("-o", "kb.jsonl"),
    "calibrate": ("-o", "c.toml", "--calibrator", "bcubed", "--between", "1e-9,1e-8"),
    "evaluate": ("--reliability",),
}


@pytest.fixture
def fragments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [
        {"id": f"f{i}", "properties": {"name": [name], "town": [town]}, "label": name}
        for i, (name, town) in enumerate(NAMES)
    ]
    return write_lines(tmp_path / "fragments.jsonl", lines)


def groups(program: Run, *arguments: object) -> list[list[str]]:
    program("cluster", *arguments, "-o", "kb.jsonl")
    return groups_in("kb.jsonl")


def test_what_shares_no_key_is_not_compared(program: Run, fragments: Path) -> None:
    everything = [["f0", "f1", "f2", "f3", "f4"]]
    assert groups(program, fragments, *TOGETHER) == everything, "bigram brings no index"
    assert groups(program, fragments, *TOGETHER, "--set", "index=none") == everything
    found = groups(program, fragments, *TOGETHER, "--set", "index=selective")
    assert found == [["f0", "f1", "f2"], ["f3"], ["f4"]]


def test_none_turns_off_the_index_that_the_default_likelihood_brings(
    program: Run, fragments: Path
) -> None:
    job = (fragments, "--alpha", "1e-40", "--json")
    assert groups(program, *job) == [["f0", "f1", "f2"], ["f3"], ["f4"]]
    assert groups(program, *job, "--set", "index=selective") == groups(program, *job)
    assert len(groups(program, *job, "--set", "index=none")) == 1


@pytest.fixture
def evaluations(program: Run, tmp_path: Path) -> Callable[..., int]:
    """Clusters fragments that share their town and nothing else; counts what that costs."""
    lines = (
        {"id": f"f{i}", "properties": {"name": [chr(97 + i) * 4], "town": ["Lund"]}}
        for i in range(20)
    )
    path = write_lines(tmp_path / "fragments.jsonl", lines)
    # without the floor that comes with an index, which leaves improbable particles out anyway
    job = (
        *("cluster", path, "--likelihood", "bigram", "-o", tmp_path / "kb.jsonl", "--json"),
        *("--set", "clusterer=split-smc", "--set", "clusterer.floor=0", "--alpha", 1000),
    )
    return lambda *more: int(program(*job, *more).json["model_evaluations"])


SELECTIVE = ("--set", "index=selective", "--set")


def test_options_reach_the_index(evaluations: Callable[..., int]) -> None:
    # the town is the one key they share: it leads to so many clusters, and each costs
    many = evaluations(*SELECTIVE, "index.families=20")
    assert evaluations(*SELECTIVE, "index.families=1") < many == evaluations("--set", "index=none")


def test_exact_leaves_out_the_bound(evaluations: Callable[..., int]) -> None:
    job = (*SELECTIVE, "index.families=20", "--set")
    exact = evaluations(*job, "index.shared=1", "--set", "exact=true")
    assert evaluations(*job, "index.compared=2") < exact == evaluations(*job, "index.compared=0")


@pytest.fixture
def many_names(tmp_path: Path) -> Path:
    """2,001 fragments with 700 names."""
    rng = random.Random(1)
    names = ["".join(rng.choices("abcdefghijklmnopqrst", k=6)) for _ in range(700)]
    lines = ({"id": f"f{i}", "properties": {"name": [names[i % 700]]}} for i in range(2001))
    return write_lines(tmp_path / "names.jsonl", lines)


@pytest.mark.slow
def test_many_names_get_an_index_by_themselves(
    program: Run, tmp_path: Path, many_names: Path
) -> None:
    job = ("cluster", many_names, "--likelihood", "bigram", "-o", tmp_path / "kb.jsonl", "--json")
    said = "index ngrams, as there are more than 2,000 fragments"
    ran = program(*job, "--alpha", 1000)
    assert said in ran.err
    named = program(*job, "--alpha", 1000, "--set", "index=ngrams")
    assert said not in named.err
    assert named.json["log_posterior"] == ran.json["log_posterior"]
    for more in (("--set", "exact=true"), ("--set", "index=none"), ("--limit", 2000)):
        assert "index ngrams" not in program(*job, "--alpha", 1000, *more).err


@pytest.mark.slow
def test_a_store_goes_on_with_the_index_that_it_was_made_with(
    program: Run, tmp_path: Path, many_names: Path
) -> None:
    more = tmp_path / "more.jsonl"
    lines = many_names.read_text().splitlines()
    more.write_text(lines[5].replace('"f5"', '"g5"') + "\n")
    job = ("--likelihood", "bigram", "--alpha", 1e6, "--json")
    indexed, exact = (tmp_path / name for name in ("indexed.sqlite", "exact.sqlite"))
    made = program("cluster", many_names, "--into", indexed, *job)
    program("cluster", many_names, "--into", exact, *job, "--set", "exact=true")
    for store in (indexed, exact):
        again = program("cluster", more, "--into", store, "--json")
        assert again.json["entities"] == made.json["entities"]
    ran = program("cluster", more, "--into", indexed, "--set", "exact=true")
    ran.require_refusal("--set exact", 2)


@pytest.mark.parametrize("verb", VERBS)
def test_exact_and_a_bound_contradict_each_other(program: Run, fragments: Path, verb: str) -> None:
    job = (verb, fragments, "--likelihood", "bigram", "--set", "index=selective", *VERBS[verb])
    ran = program(*job, "--set", "exact=true", "--set", "index.compared=5")
    ran.require_refusal("--set exact and --set index.compared both say how many clusters", 2)


def test_what_compares_with_all_is_exact_already(program: Run, fragments: Path) -> None:
    plain = groups(program, fragments, *TOGETHER)
    assert groups(program, fragments, *TOGETHER, "--set", "exact=true") == plain
    assert (
        groups(program, fragments, *TOGETHER, "--set", "exact=true", "--set", "index=none") == plain
    )


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_clusters_takes_one(program: Run, fragments: Path, verb: str) -> None:
    alpha = () if verb == "calibrate" else ("--alpha", "1e-9")
    job = (verb, fragments, "--likelihood", "bigram", *alpha, *VERBS[verb], "--json")
    with_all, selective = (
        program(*job, "--set", f"index={index}").json for index in ("none", "selective")
    )
    if verb == "cluster":
        assert (with_all["entities"], selective["entities"]) == (1, 3)
    elif verb == "calibrate":
        assert with_all["value"] < selective["value"]
    else:
        assert (with_all["scores"]["clusters"], selective["scores"]["clusters"]) == (1, 3)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--set", "index=magic"), 'there is no index "magic"; available: '),
        (("--set", "index.families=2"), NO_INDEX),
        (("--set", "index=none", "--set", "index.families=2"), NO_INDEX),
        (("--set", "index=selective", "--set", "index.q=2"), 'index selective has no option "q"'),
        (("--set", "index=selective", "--set", "index.families=0"), "expected at least 1"),
    ],
)
def test_bad_choices_get_one_sentence(
    program: Run, fragments: Path, verb: str, arguments: tuple[str, ...], sentence: str
) -> None:
    ran = program(verb, fragments, "--likelihood", "bigram", *VERBS[verb], *arguments)
    ran.require_refusal(sentence)


def test_an_index_without_a_key_is_refused(program: Run, tmp_path: Path) -> None:
    points = write_lines(tmp_path / "points", [{"id": id, "vector": [1, 2]} for id in "ab"])
    kb = tmp_path / "kb.jsonl"
    ran = program(
        "cluster", points, "-o", kb, "--likelihood", "gaussian", "--set", "index=selective"
    )
    ran.require_refusal("it finds no key in any fragment", 2)
    assert not kb.exists()
