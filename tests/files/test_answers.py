"""Answers are read strictly, and each is on disk when it is given."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kbforge.contracts import Fragment
from kbforge.errors import BadRecord, KBForgeError, OutputError
from kbforge.files.answers import (
    Answer,
    AnswerFile,
    NumberedAnswer,
    QuestionDetails,
    checks_for,
    decided,
    error_rates,
    placed,
    read_answers,
)

SHA = "0123456789abcdef" * 4
ASKED = {"number": 1, "how": "informative", "joined": 0.5, "share": 0.25}
GOOD: dict[str, Any] = {"a": "x", "b": "y", "same": True, "asked": ASKED, "fragments_sha256": SHA}


def answer(b: str, same: bool | None = True, by: str | None = None) -> Answer:
    return Answer("x", b, same, QuestionDetails(1, "audit", 0.5, 0.25), SHA, by)


def rates_of(answers: list[Answer]) -> dict[str | None, float]:
    return error_rates(one.said for one in answers)


def written(path: Path, **changed: Any) -> str:
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps({**GOOD, **changed}) + "\n")
    return str(path)


def test_what_is_written_is_read(tmp_path):
    path = str(tmp_path / "a.jsonl")
    given = [answer("y"), answer("é\n", False), answer("z", None), answer("w", by="llm.py")]
    with AnswerFile(path) as file:
        for one in given:
            file.append(one)
            assert read_answers(path)[-1] == one
    assert read_answers(path) == given


def test_a_file_goes_on_and_undo_goes_back_no_further_than_its_opening(tmp_path):
    path = str(tmp_path / "a.jsonl")
    with AnswerFile(path) as file:
        file.append(answer("y"))
    with AnswerFile(path) as file:
        assert file.answers == [answer("y")]
        file.append(answer("z"))
        file.append(answer("w"))
        assert file.undo() == answer("w")
        file.append(answer("v"))
    assert read_answers(path) == [answer("y"), answer("z"), answer("v")]


def test_a_last_line_without_an_end_stays_a_line_of_its_own(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(answer("y").to_line().rstrip(b"\n"))
    with AnswerFile(str(path)) as file:
        file.append(answer("z"))
        file.undo()
        file.append(answer("w"))
    assert read_answers(str(path)) == [answer("y"), answer("w")]


def test_without_an_answer_no_file_is_made(tmp_path):
    with AnswerFile(str(tmp_path / "a.jsonl")):
        pass
    assert list(tmp_path.iterdir()) == []


def test_two_cannot_write_one_file(tmp_path):
    path = str(tmp_path / "a.jsonl")
    with AnswerFile(path) as one, AnswerFile(path) as other:
        one.append(answer("y"))
        with pytest.raises(OutputError, match="another kbforge review is writing to it"):
            other.append(answer("z"))
    assert read_answers(path) == [answer("y")]


def test_a_packed_file_cannot_grow(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(answer("y").to_line()))
    assert read_answers(str(path)) == [answer("y")]
    with pytest.raises(KBForgeError, match="expected an uncompressed file, since each"):
        AnswerFile(str(path))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"same": "yes"}, "same: expected true, false or null, got yes"),
        ({"same": 1}, "same: expected true, false or null, got 1"),
        ({"a": ""}, "a: expected the id of a fragment, got an empty string"),
        ({"b": "x"}, 'b: expected another id than a, got "x" again'),
        ({"b": None}, "b: expected the id of a fragment, got nothing"),
        ({"by": None}, "by: expected a name, got nothing"),
        ({"by": ""}, "by: expected a name of 1 to 200 characters, got 0"),
        ({"by": "x" * 201}, "by: expected a name of 1 to 200 characters, got 201"),
        ({"extra": 1}, "extra: expected one of a, b, same, asked, fragments_sha256, by"),
        ({"fragments_sha256": "abc"}, "fragments_sha256: expected 64 hexadecimal digits, got abc"),
        (
            {"asked": {**ASKED, "how": "x"}},
            "asked.how: expected one of informative, audit, test, sampled, whole, entity, got x",
        ),
        ({"asked": {**ASKED, "joined": 2}}, "asked.joined: expected a number from 0 to 1, got 2"),
        ({"asked": {**ASKED, "number": 0}}, "asked.number: expected a whole number above 0"),
        ({"asked": []}, "asked: expected a table"),
    ],
)
def test_what_is_no_answer_is_refused(tmp_path, changed, said):
    path = written(tmp_path / "a.jsonl", **changed)
    with pytest.raises(BadRecord) as error:
        read_answers(path)
    assert str(error.value).startswith(f"{path}:2: {said}")


def test_a_missing_same_is_no_null(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({k: v for k, v in GOOD.items() if k != "same"}))
    with pytest.raises(BadRecord, match="same: expected true, false or null, got nothing"):
        read_answers(str(tmp_path / "a.jsonl"))


@pytest.mark.parametrize("line", ["[]", "3", '{"a": 1, "a": 2}', "{"])
def test_what_is_no_object_is_refused(tmp_path, line):
    (tmp_path / "a.jsonl").write_text(line)
    with pytest.raises(BadRecord, match=r"a\.jsonl:1: expected"):
        read_answers(str(tmp_path / "a.jsonl"))


def test_answers_are_placed_by_id():
    fragments = [Fragment(name, {"name": (name,)}) for name in ("y", "z", "x")]
    given = [answer("y"), answer("z", None)]
    assert placed(given, fragments, "a.jsonl") == [
        NumberedAnswer(2, 0, True, audit=True),
        NumberedAnswer(2, 1, None, audit=True),
    ]
    with pytest.raises(KBForgeError) as error:
        placed([answer("gone")], fragments, "a.jsonl")
    assert str(error.value) == (
        'a.jsonl: expected answers about these fragments, got one about "gone", which is not among '
        "them; kbforge review asks again"
    )


def test_a_person_is_trusted_and_a_program_only_when_it_agrees_with_a_person():
    names = [f"y{k}" for k in range(16)]
    mine = [answer(name, k % 2 == 0) for k, name in enumerate(names)]
    good = [replace(one, by="good") for one in mine]
    bad = [replace(one, by="bad", same=not one.same) for one in mine[:8]] + [
        replace(one, by="bad") for one in mine[8:]
    ]
    new = [answer("z", by="new")]
    said = [*mine, *good, *bad, *new]
    rates = rates_of(said)
    assert rates == {None: 0.05, "good": 1 / 21, "bad": 9 / 21, "new": 0.2}
    fragments = [Fragment(name, {"name": (name,)}) for name in ("x", "z", *names)]
    assert [one.right for one in placed(said, fragments, "a.jsonl")] == (
        [0.95] * 16 + [1 - 1 / 21] * 16 + [1 - 9 / 21] * 16 + [0.8]
    )
    decisions = [one.name for one in decided(said)]
    assert decisions == [f"answer {k}" for k in (*range(17, 33), *range(1, 17))]


def test_programs_that_agree_with_each_other_prove_nothing():
    said = [answer(f"y{k}", by=by) for k in range(50) for by in ("one", "other", "one")]
    assert rates_of(said) == {None: 0.05, "one": 0.2, "other": 0.2}
    assert decided(said) == []


def test_who_contradicts_themselves_is_wrong_once():
    twice = [answer("y"), answer("y", False), answer("z", None), answer("y", False)]
    assert rates_of(twice) == {None: 3 / 42}
    assert rates_of([replace(one, by="p") for one in twice]) == {None: 0.05, "p": 2 / 7}
    tied = [*twice[:2], answer("y", by="p")]  # a person who says both tests nobody
    assert rates_of(tied) == {None: 3 / 42, "p": 0.2}


def test_a_person_tests_a_program_once_a_pair_and_not_forever():
    mine = [answer(f"y{k}", k % 2 == 0) for k in range(30)]
    unknown = answer("z", None)
    said = [one.said for one in (*mine, unknown)]
    assert checks_for("p", said) == said[:20]
    answered = [replace(one, by="p:ada" if k else "p").said for k, one in enumerate(mine[:4])]
    assert checks_for("p", [*said, *answered]) == said[4:20]
    assert checks_for("q", [*said, *answered]) == said[:20]
