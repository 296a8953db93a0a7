"""What preparing costs: a model folder is read and hashed once a run."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kbforge import load
from kbforge.contracts import Fragment
from kbforge.errors import ModelError
from kbforge.files.answers import AnswerFile
from kbforge.fit import prepare as preparing
from kbforge.fit.choices import RunOptions
from kbforge.fit.prepare import prepare
from kbforge.fit.review import FileReview
from kbforge.testing import BlackBox, Categorical, examples
from kbforge_plugins.likelihoods.attributes import likelihood
from kbforge_plugins.likelihoods.attributes.fitting import fit_unlabelled
from tests.fit.people import made


@pytest.fixture
def model(program, tmp_path):
    lines = [f'{{"id": "p{n}", "properties": {{"name": ["ada {n % 3}"]}}}}\n' for n in range(9)]
    (tmp_path / "people.jsonl").write_text("".join(lines))
    ran = program("train-ngram", tmp_path / "people.jsonl", "-o", tmp_path / "model")
    assert ran.code == 0, ran.err
    return tmp_path / "model"


@pytest.mark.parametrize("surrogate", [False, True])
def test_a_bundle_is_read_once_a_run(model, surrogate):
    reads: Counter[str] = Counter()

    def counted(event: str, given: tuple[object, ...]) -> None:
        if event == "open" and str(given[0]) == str(model / "counts.json"):
            reads["counts.json"] += 1

    sys.addaudithook(counted)  # it stays, and counts what nobody asks for
    choices = RunOptions(likelihood=str(model), surrogate=str(model) if surrogate else None)
    fragments = load(model.parent / "people.jsonl")
    prepare(fragments, choices)
    assert +reads == {"counts.json": 1}
    prepare(fragments, choices)
    assert +reads == {"counts.json": 2}  # the next run reads what is there then


def test_what_was_read_once_is_checked_again_in_the_next_run(model):
    choices, fragments = RunOptions(likelihood=str(model)), load(model.parent / "people.jsonl")
    prepare(fragments, choices)
    counts = model / "counts.json"
    counts.write_bytes(counts.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(ModelError, match="is damaged"):
        prepare(fragments, choices)


def answered_once(fragments: Sequence[Fragment], same: bool, folder: Path) -> Path:
    """A file of answers with one, to the first question about some fragments."""
    answers = folder / "answers.jsonl"
    with AnswerFile(str(answers)) as file:
        review = FileReview(fragments, RunOptions(), file)
        question = review.question()
        review.answer(question, same)
    return answers


@pytest.mark.parametrize("likelihood", [None, "attributes", "pairs"])
def test_the_exponent_of_sizes_that_is_asked_for_is_used(likelihood):
    found = prepare(made("people"), RunOptions(likelihood=likelihood, size_exponent=0.5))
    plain = prepare(made("people"), RunOptions(likelihood=likelihood, size_exponent=1.0))
    assert (found.spec.exponent, plain.spec.exponent) == (0.5, 1.0)
    assert found.alpha == plain.alpha
    assert prepare(made("people"), RunOptions(likelihood=likelihood, alpha=3.0)).spec.exponent == 1


def test_where_answers_pay_a_note_says_so_with_the_command(tmp_path):
    said = "answers to a dozen questions may help: kbforge review FILE asks"
    fragments = made("organisations")
    assert sum(note.startswith(said) for note in prepare(fragments, RunOptions()).notes) == 1
    answers = answered_once(fragments, False, tmp_path)
    clear = [Fragment(str(k), {"name": (("Ada Byron", "Kurt Moor")[k % 2],)}) for k in range(30)]
    for some, choices in (
        (fragments, RunOptions(answers=str(answers))),
        (fragments, RunOptions(alpha=1.0)),
        (fragments, RunOptions(likelihood="attributes")),
        (clear, RunOptions()),
    ):
        assert said not in " ".join(prepare(some, choices).notes)


def test_linked_tables_are_compared_by_pairs_at_its_own_alpha(tmp_path):
    fragments = [
        Fragment(f"{table}{k}", {"name": (f"word{k} name{7 * k}",)}, source=table)
        for k in range(60)
        for table in "ab"
    ]
    answers = answered_once(fragments, True, tmp_path)
    found = prepare(fragments, RunOptions(link="source", answers=str(answers)))
    assert (found.likelihood, found.alpha, found.confidence) == ("pairs", 1.0, None)
    assert found.notes[0].startswith("chosen: pairs, which compares records of different tables")
    assert any(note.startswith("1 answer to learn from") for note in found.notes)
    assert "about 60 matches expected" in found.notes[0]


@pytest.mark.slow
def test_sources_that_are_one_to_one_are_compared_with_each_other(tmp_path):
    fragments = [
        Fragment(f"{table}{k}", {"name": (f"word{k} name{7 * k}",)}, source=table)
        for k in range(60)
        for table in "ab"
    ]
    found = prepare(fragments, RunOptions(), tables=True)
    assert (found.likelihood, found.confidence) == ("pairs", None)
    assert found.options == {"link": "source"}
    assert "of 2 tables (a, b) whose records seem to be one to one" in found.notes[0]
    assert prepare(fragments, RunOptions(alpha=2.0), tables=True).alpha == 2.0
    answers = answered_once(fragments, True, tmp_path)
    for some, choices in (
        (fragments, RunOptions(answers=str(answers))),
        (fragments, RunOptions(likelihood="attributes")),
        ([replace(f, source="a" if f.id[1:] < "4" else "b") for f in fragments], RunOptions()),
    ):
        assert "link" not in prepare(some, choices, tables=True).options
    assert "link" not in prepare(fragments, RunOptions()).options


def test_a_black_box_that_is_compared_with_everything_says_so_once_with_the_count():
    said = "BlackBox scores whole sets and has no index: each of the 12 fragments is compared"
    fragments, alone = (
        examples.fragments(12),
        RunOptions(likelihood=BlackBox(Categorical()), alpha=1),
    )
    (note,) = (note for note in prepare(fragments, alone).notes if "whole sets" in note)
    assert note.startswith(said)
    assert "up to 66 comparisons" in note
    for choices in (
        replace(alone, surrogate=Categorical()),
        replace(alone, index="ngrams"),
        replace(alone, index="none"),
        replace(alone, likelihood=Categorical()),
    ):
        assert "whole sets" not in " ".join(prepare(fragments, choices).notes)


@pytest.mark.parametrize(
    ("named", "options", "largest", "fits"),
    [
        (None, {}, 1_000, 1),
        (None, {}, 100, 1),  # a part is compared, which reads what is learned from the file
        ("attributes", {}, 1_000, 1),
        ("attributes", {}, 100, 1),
        ("attributes", {"likelihood": {"attributes": ("name",)}}, 1_000, 2),
    ],
)
def test_what_is_learned_of_attributes_is_learned_once(named, options, largest, fits, monkeypatch):
    fitted: list[int] = []

    def counted(fragments: Sequence[Fragment], *given: object) -> object:
        fitted.append(len(fragments))
        return fit_unlabelled(fragments, *given)

    monkeypatch.setattr(likelihood, "fit_unlabelled", counted)
    for limit in ("MOST_TO_CHOOSE", "MOST_COMPARED"):
        monkeypatch.setattr(preparing, limit, largest)
    fragments = load(Path(__file__).with_name("many_people.jsonl"))
    prepare(fragments, RunOptions(likelihood=named, options=options))
    assert fitted == [len(fragments)] * fits
