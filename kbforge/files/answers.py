"""Answers about pairs of fragments, as JSON lines.

    {"a": "row-3", "b": "row-17", "same": true,
     "asked": {"number": 1, "how": "informative", "joined": 0.41, "share": 0.02},
     "fragments_sha256": "...", "by": "llm.py"}

`same` is null if it is unknown. `by` names the program that answered; without it a person did.
`asked` records why the pair was asked about:

| field | meaning |
|---|---|
| number | of the question, from 1 |
| how | "informative": one of the most informative pairs; "audit": the pair most likely wrong in an
entity drawn at random; "test": a person had answered, and a program is tested; of `kbforge evaluate
--audit`: "sampled", "entity" and "whole" (is a one with all others of its entity, b among them?) |
| joined | weight of the groupings that join the two, before any answer, in [0, 1] |
| share | of the pairs that some grouping joins and that were equally informative, in (0, 1]; of a
sampled pair, the probability that it is drawn from its stratum; of an entity, one of all |

`fragments_sha256` is the fingerprint of the fragments; of "whole", of the ids in the entity.

Each answer is a line, on disk before the next question. Two answers about one pair both count as
evidence; if answers contradict each other, a clustering honours the later one.

**Errors.** An answerer's rate of wrong answers has a Beta prior: narrow for a person, wide for a
program. A person's answers test a program's answers about the same pairs, and of two contradictory
answers by one answerer, one is wrong. Agreement between programs is no test, since they may share
their errors. A person's answers are decisions; a program's are only if it is wrong at most at the
rate `MOST_WRONG`.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kbforge.contracts.clusterer import Decision
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import PairAnswer
from kbforge.errors import BadRecord, KBForgeError, OutputError, quoted
from kbforge.files.fragments import mistaken, read_json_lines, stop
from kbforge.files.io import called, hold, reason_of
from kbforge.files.records import Record

INFORMATIVE = "informative"
AUDIT = "audit"
TEST = "test"
SAMPLED = "sampled"
WHOLE = "whole"
ENTITY = "entity"
HOW = (INFORMATIVE, AUDIT, TEST, SAMPLED, WHOLE, ENTITY)
"""The reasons for asking about a pair."""

_OF_A_PERSON = (2.0, 38.0)
_OF_A_PROGRAM = (1.0, 4.0)
"""The Beta prior of an answerer's errors: as if so many answers had been wrong, and right."""
PERSON_RIGHT = 0.95
"""The probability that a person's answer is right, before any contradiction."""
MOST_WRONG = 0.1
"""A program that is wrong more often makes no decisions."""
MOST_TESTS = 20
"""Of a person's answers that test a program."""

_SHA256_DIGITS = 64
_PACKED = (b"\x1f", b"(")  # how gzip and zstd begin, and no JSON does


@dataclass(frozen=True, slots=True)
class QuestionDetails:
    """Why a pair was asked about; the fields are those of the file."""

    number: int
    how: str
    joined: float
    share: float


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer about a pair of fragments."""

    a: str
    b: str
    same: bool | None  # None: the person does not know
    asked: QuestionDetails
    fragments_sha256: str  # the fingerprint that `kbforge.fit.alpha` makes
    by: str | None = None  # the program; None: a person

    @property
    def said(self) -> Said:
        """What it says of the pair: a fragment that is not one with a whole may be one with b."""
        unknown = self.asked.how == WHOLE and not self.same
        return Said(self.by, self.a, self.b, None if unknown else self.same)

    def to_line(self) -> bytes:
        """The JSON line, newline included."""
        fields = asdict(self)
        if self.by is None:
            del fields["by"]
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def read_answers(path: str) -> list[Answer]:
    """Read strictly; "-" is standard input; a BadRecord names file, line and field."""
    answers: list[Answer] = []
    for where, line, value in read_json_lines(path, stop):
        try:
            answers.append(_answer(value, where))
        except BadRecord as error:
            raise (error if answers else mistaken(error, path, line, "answers")) from None
    return answers


@dataclass(frozen=True, slots=True)
class NumberedAnswer:
    """An `Answer` with the numbers of its fragments: `first` is that of a, `second` that of b."""

    first: int
    second: int
    same: bool | None
    audit: bool
    right: float = PERSON_RIGHT  # probability that it is


class Said(NamedTuple):
    """Who (None: a person) said about two ids that they are the same; None if unknown."""

    by: str | None
    a: str
    b: str
    same: bool | None

    @property
    def pair(self) -> frozenset[str]:
        """The ids."""
        return frozenset((self.a, self.b))

    def is_of(self, program: str) -> bool:
        """Whether the program gave it, or a member of its crowd."""
        return self.by is not None and (self.by == program or self.by.startswith(f"{program}:"))


def error_rates(answers: Iterable[Said]) -> dict[str | None, float]:
    """The expected rate of wrong answers by answerer (None: a person), in (0, 1)."""
    said = Counter((one.by, one.pair, one.same) for one in answers)
    wrong, tested = defaultdict[str | None, float](float), defaultdict[str | None, float](float)
    for (by, pair, same), count in said.items():
        if same is None:
            continue
        contradicted = min(count, said[by, pair, not same]) / 2  # each side of it counts half
        wrong[by] += contradicted
        tested[by] += 2 * contradicted
        verdict = said[None, pair, same] - said[None, pair, not same]
        if by is not None and verdict:
            wrong[by] += count * (verdict < 0)
            tested[by] += count
    prior = {
        by: _OF_A_PERSON if by is None else _OF_A_PROGRAM for by in (None, *(s[0] for s in said))
    }
    return {by: (a + wrong[by]) / (a + b + tested[by]) for by, (a, b) in prior.items()}


def checks_for(program: str, answers: Sequence[Said]) -> list[Said]:
    """A person's answers about pairs that a program has not answered: the first `MOST_TESTS`."""
    mine = {one.pair for one in answers if one.is_of(program)}
    told = {one.pair: one for one in answers if one.by is None and one.same is not None}
    left = max(MOST_TESTS - len(mine & told.keys()), 0)
    return [one for pair, one in told.items() if pair not in mine][:left]


def placed(
    answers: Sequence[Answer], fragments: Sequence[Fragment], path: str
) -> list[NumberedAnswer]:
    """The answers with the numbers of their fragments; an answer about another fragment is an
    error."""
    numbers = {fragment.id: number for number, fragment in enumerate(fragments)}
    for answer in answers:
        for name in (answer.a, answer.b):
            if name not in numbers:
                raise KBForgeError(
                    f"{quoted(called(path), 400)}: expected answers about these fragments, got one "
                    f'about "{quoted(name)}", which is not among them; kbforge review asks again'
                )
    wrong = error_rates(answer.said for answer in answers)
    return [
        NumberedAnswer(
            *(numbers[answer.a], numbers[answer.b], answer.said.same, answer.asked.how == AUDIT),
            right=1 - wrong[answer.by],
        )
        for answer in answers
    ]


def pair_answers(
    answers: Iterable[NumberedAnswer], fragments: Sequence[Fragment]
) -> list[PairAnswer]:
    """What answers say of pairs, without those that say nothing."""
    return [
        (fragments[one.first], fragments[one.second], one.right if one.same else 1 - one.right)
        for one in answers
        if one.same is not None
    ]


def decided(answers: Sequence[Answer]) -> list[Decision]:
    """The answers as named decisions, a person's last, since later ones hold.

    Unknown answers make none, nor do those of programs that are wrong too often.
    """
    wrong = error_rates(answer.said for answer in answers)
    numbered = sorted(enumerate(answers, 1), key=lambda one: one[1].by is None)
    return [
        Decision(answer.said.same, answer.a, answer.b, f"answer {number}")
        for number, answer in numbered
        if answer.said.same is not None and (answer.by is None or wrong[answer.by] <= MOST_WRONG)
    ]


class AnswerFile:
    """A file of answers: each answer is on disk when `append` returns.

    The first answer creates it. KBForgeError: it cannot be read or written, or is another file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        there = os.path.exists(path)
        self.answers = read_answers(path) if there else []
        if there and Path(path).read_bytes()[:1] in _PACKED:
            raise KBForgeError(
                f"{quoted(path, 400)}: expected an uncompressed file, since each answer is "
                "appended, got a compressed one"
            )
        self._file: FileIO | None = None
        self._ends: list[int] = []

    def __enter__(self) -> AnswerFile:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, answer: Answer) -> None:
        """Append an answer; if it cannot be written, the file is unchanged."""
        with self._writing() as file:
            end = file.tell()
            try:
                file.write(answer.to_line())
                os.fsync(file.fileno())
            except OSError:
                # half a line would spoil the file
                with contextlib.suppress(OSError):
                    file.truncate(end)
                raise
        self._ends.append(end)
        self.answers.append(answer)

    def undo(self) -> Answer:
        """Remove and return the last answer appended since the file was opened."""
        with self._writing() as file:
            file.truncate(self._ends[-1])
            os.fsync(file.fileno())
        self._ends.pop()
        return self.answers.pop()

    def _hold(self, file: FileIO) -> None:
        """Lock the file, so that two programs do not ask the same questions."""
        try:
            free = hold(file.fileno())
        except OSError:  # a system without locks
            return
        if not free:
            raise OutputError(
                f"cannot write {quoted(self.path, 400)}: another kbforge review is writing to it"
            )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[FileIO]:
        try:
            if self._file is None:
                self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115
                self._hold(self._file)
                _end_last_line(self._file)
            self._file.seek(0, os.SEEK_END)
            yield self._file
        except OSError as error:
            where = f"cannot write {quoted(self.path, 400)}"
            raise OutputError(f"{where}: {reason_of(error)}") from error


def _end_last_line(file: FileIO) -> None:
    """End the last line with a newline, so that the next answer starts a new line."""
    if file.seek(0, os.SEEK_END):
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


def _answer(value: Any, where: str) -> Answer:
    fields = "a", "b", "same", "asked", "fragments_sha256", "by"
    record = record_of(value, where, "an object with a, b and same").only(*fields)
    pair = _pair(record)
    sha256 = record.get("fragments_sha256", str)
    if len(sha256) != _SHA256_DIGITS:
        raise record.wrong("fragments_sha256", f"{_SHA256_DIGITS} hexadecimal digits", sha256)
    by = name_of(record) if "by" in record else None
    return Answer(*pair, same_of(record), _asked(record.table("asked")), sha256, by)


def name_of(record: Record, longest: int = 200) -> str:
    """The field `by`: who answered."""
    name: str = record.get("by", str, "a name")
    if not 0 < len(name) <= longest:
        raise record.wrong("by", f"a name of 1 to {longest} characters", f"{len(name):,}")
    return name


def same_of(record: Record) -> bool | None:
    """The field `same`: true, false or null."""
    if record.is_null("same"):
        return None
    said: bool = record.get("same", bool, "true, false or null")
    return said


def read_decisions(path: str) -> list[Decision]:
    """The answers of a file as decisions, without unknown ones; only `a`, `b` and `same` are read.

    "-" is standard input.
    """
    found = []
    for where, _, value in read_json_lines(path, stop):
        record = record_of(value, where, "an object with same, a and b")
        same, pair = same_of(record), _pair(record)
        if same is not None:
            found.append(Decision(same, *pair))
    return found


def record_of(value: Any, where: str, expected: str = "an object") -> Record:
    """A JSON object whose errors name its place; a BadRecord if the value is none."""
    if not isinstance(value, dict):
        raise BadRecord(where, expected, quoted(value, 40))
    return Record(value, lambda field, expected, got: BadRecord(where, expected, got, field))


def _pair(record: Record) -> tuple[str, str]:
    """The fields `a` and `b`: the ids of two fragments."""
    expected = "the id of a fragment"
    for key in ("a", "b"):
        if not record.get(key, str, expected):
            raise record.wrong(key, expected, "an empty string")
    a, b = (str(record.get(key, str)) for key in ("a", "b"))
    if a == b:
        raise record.wrong("b", "another id than a", f'"{quoted(b)}" again')
    return a, b


def _asked(record: Record) -> QuestionDetails:
    record.only("number", "how", "joined", "share")
    return QuestionDetails(
        number=record.count("number"),
        how=record.choice("how", HOW),
        joined=record.within("joined", 0, 1),
        share=record.within("share", 0, 1),
    )
