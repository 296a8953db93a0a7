"""`kbforge review`: asks a person or a program which pairs of fragments are the same entity."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from kbforge import interrupts
from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import (
    AnswererError,
    BadRecord,
    ContradictionError,
    LikelihoodError,
    UsageError,
    counted,
    percent,
    quoted,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from kbforge.contracts import Explanation, Fragment
    from kbforge.files.answers import AnswerFile
    from kbforge.fit.questions import CandidatePair, PairQuestion
    from kbforge.fit.review import Evidence, Q, Review, Side
    from kbforge.jobs.answering import Answerer

app = typer.Typer(add_completion=False)

_PACKED = (".gz", ".zst")
_OF_A_FILE = ("output", "id_column", "likelihood", "seed", "limit", "settings")
_QUESTIONS_OF_A_FILE = 12
_QUESTIONS_OF_A_STORE = 20
_QUESTIONS_TO_A_PROGRAM = 100


@app.command()
def review(
    context: typer.Context,
    path: Annotated[
        str, typer.Argument(metavar="FILE", help="Fragments, JSON lines; or a table; or a store.")
    ],
    output: Annotated[
        str,
        option(
            "--output",
            "-o",
            "File of answers; the answers that it already has count. A store keeps its own.",
        ),
    ] = "answers.jsonl",
    count: Annotated[
        int | None,
        option(
            "--count",
            "Maximum number of questions.",
            min=1,
            show_default=f"{_QUESTIONS_OF_A_FILE}; {_QUESTIONS_OF_A_STORE} for a store; "
            f"{_QUESTIONS_TO_A_PROGRAM} to a program",
        ),
    ] = None,
    answerer: Annotated[
        str | None, option("--answerer", "Ask this program, by lines.", metavar="COMMAND")
    ] = None,
    seconds: Annotated[
        float | None, option("--seconds", "Ask the program no longer than this.", min=0.001)
    ] = None,
    id_column: options.IdColumn = None,
    likelihood: Annotated[
        str | None, option("--likelihood", "Choose alpha for this likelihood and no other.")
    ] = None,
    seed: options.Seed = 0,
    limit: options.Limit = None,
    settings: options.Settings = None,
    by: options.By = None,
    note: options.Note = None,
    as_json: Annotated[
        bool, option("--json", "Write questions and read answers as JSON lines.")
    ] = False,
) -> None:
    """Answer questions about uncertain pairs, most useful first.

    For a file of fragments, it asks about the pairs of which the model of pairs is least certain,
    and about the pairs of some random entities. kbforge cluster --answers honours the answers, and
    the model learns from them about all other pairs.

    For a store, it asks first about the pair whose answer is expected to correct most fragments,
    and shows the evidence for and against. Each answer is a decision, which every later grouping
    honours. kbforge decide --list shows the decisions and --undo takes one back.

    Each answer is saved before the next question. At a terminal, type y (same entity), n (not), s
    (skip), c (cannot tell), u (undo the last answer) or q (quit), and a note after a space. In a
    store, nobody is asked again about a pair that somebody cannot tell.

    Without a terminal, or with --json, each question is a line on standard output and each answer a
    line on standard input: {"same": true}, {"same": false}, {"same": null} to skip, {"cannot_tell":
    true}, {"undo": true} or {"quit": true}; "note" may say why. An answer that contradicts
    decisions is not kept, and a line {"refused": why} explains it.

    With --answerer, a program answers, such as a script that asks a language model. It gets each
    question as a line of JSON and answers with one (docs/answerers.md). Pairs that a person has
    answered come first: the program's other answers weigh by how often it agreed, and bind only if
    it is wrong at a rate of at most 10 %.

    Examples:

        kbforge review fragments.jsonl

        kbforge cluster fragments.jsonl --answers answers.jsonl

        kbforge review fragments.jsonl --count 30 --json < said.jsonl

        kbforge review kb.sqlite --count 50

        kbforge review fragments.jsonl --answerer "python ask_model.py" --seconds 600
    """
    from kbforge.jobs.answering import answering
    from kbforge.store.audit import signed
    from kbforge.store.database import is_store

    if answerer is None and seconds is not None:
        raise UsageError("--seconds is for a program; --answerer names it")
    stores = is_store(path)
    if stores and (named := options.first_given(context, _OF_A_FILE)) is not None:
        raise UsageError(f"{named} is for a file of fragments, and {quoted(path, 400)} is a store")
    if not stores and (named := options.first_given(context, ("by", "note"))) is not None:
        raise UsageError(f"{named} is for a store, and {quoted(path, 400)} is a file of fragments")
    usual = _QUESTIONS_OF_A_STORE if stores else _QUESTIONS_OF_A_FILE
    by_line = as_json or (not answerer and talks_to_program())
    with ExitStack() as stack:
        ask: Ask = partial(by_lines if by_line else at_terminal, count=count or usual)
        if answerer is not None:
            program = stack.enter_context(answering(answerer, seconds))
            ask = partial(by_program, program, count=count or _QUESTIONS_TO_A_PROGRAM)
        if stores:
            stack.enter_context(signed(by, note))
            _review_store(path, ask, by_line)
        else:
            _review_file(context, path, output, ask, by_line)


def _review_file(
    context: typer.Context, fragments: str, output: str, ask: Ask, by_line: bool
) -> None:
    from kbforge.files.answers import AnswerFile
    from kbforge.fit.review import FileReview

    if fragments == "-":
        raise UsageError("standard input has the answers, so the fragments need a file")
    given = context.params
    models = options.files_of(given["settings"], given["likelihood"])
    require_answer_file("--output", output, [fragments, *models])
    choices = options.choices_of(context, [], ["likelihood"])
    read = options.read_all(context, fragments)
    with AnswerFile(output) as file:
        with console.working("looking for questions"):
            review = FileReview(read, choices, file)
        with kept_if_ended(file):
            ask(review, side_by_side)
        if by_line:
            unknown = sum(answer.same is None for answer in file.answers)
            console.print_json({"summary": {**review.lesson.to_json(), "unknown": unknown}})
        elif not file.answers:
            console.note("no answers")
        else:
            console.note(str(review.lesson))
            command = f"kbforge cluster {quoted(fragments, 400)} --answers {quoted(file.path, 400)}"
            console.note(f"{_held(file)}; {command} uses them")


def _review_store(store: str, ask: Ask, by_line: bool) -> None:
    from kbforge.jobs.decide import reviewed

    ended: BaseException | None = None
    with ExitStack() as stack:
        with console.working("looking for questions"):
            review = stack.enter_context(reviewed(store))
        try:
            ask(review, show_evidence)
            if review.question() is None:
                console.note("no questions are left")
        except (KeyboardInterrupt, AnswererError) as end:
            ended = end
        done = review.done()
    made = counted(len(done.told["decisions"]), "decision")
    if isinstance(ended, AnswererError):
        raise AnswererError(f"{ended}; the answers before are kept, {made}")
    if by_line and ended is None:
        console.print_json({"summary": done.summary()})
        return
    what = made if ended is None else f"{interrupts.sentence()}, {made}"
    console.print_done(done, store, what, as_json=False)
    if ended is not None:
        raise typer.Exit(interrupts.exit_code())


# --- asking ---------------------------------------------------------------------------------------


def talks_to_program() -> bool:
    """Whether there is no terminal to ask at."""
    return not (sys.stdin.isatty() and sys.stdout.isatty())


def require_answer_file(option: str, path: str, inputs: Sequence[str]) -> None:
    """Refuse a file that answers cannot be appended to."""
    from kbforge.files.io import require_apart, require_writable

    if path == "-" or path.endswith(_PACKED):
        raise UsageError(
            f"{option} {quoted(path, 400)}: expected a plain file, to append answers to"
        )
    require_apart(path, inputs)
    require_writable(path)


@contextmanager
def kept_if_ended(file: AnswerFile) -> Iterator[None]:
    """Say what the file holds when a signal or a program ends the asking."""
    try:
        yield
    except (KeyboardInterrupt, AnswererError) as end:
        if isinstance(end, AnswererError):
            raise AnswererError(f"{end}; {_held(file)}") from None
        console.note(f"\n{interrupts.sentence()}: {_held(file)}")
        raise typer.Exit(interrupts.exit_code()) from None


def _held(file: AnswerFile) -> str:
    return f"{quoted(file.path, 400)} holds {counted(len(file.answers), 'answer')}"


Reply: TypeAlias = bool | Literal["cannot_tell", "undo", "quit"] | None
"""Whether the two are one entity (None to skip), or a command."""

Ask: TypeAlias = "Callable[[Review[Any], Callable[[Evidence[Any]], RenderableType]], None]"
"""Asks the questions of a review; the function shows one at a terminal."""

_KEYS: dict[str, Reply] = {
    "y": True,
    "n": False,
    "s": None,
    "?": None,
    "c": "cannot_tell",
    "u": "undo",
    "q": "quit",
}
_MOST_NAMED = 10  # of a crowd
_MOST_ROWS = 24
_MOST_VALUES = 6
_MOST_CHARACTERS = 200
# evidence shows many fragments, so it shows less of each
_MOST_BESIDE = 40
_SHOWN_ATTRIBUTES = 12
_SHOWN_VALUES = 3
_SHOWN_CHARACTERS = 60


def at_terminal(
    review: Review[Q], show: Callable[[Evidence[Q]], RenderableType], count: int
) -> None:
    """Show at most `count` pairs of fragments, and read the answers that the user types."""
    done = 0
    while done < count and (question := review.question()) is not None:
        screen = console.stdout()
        screen.print()
        screen.print(show(question))
        left, tell = "", ""
        if review.n_useful is not None:
            left, tell = f", about {review.n_useful:,} left that matter", "[c]annot tell "
        prompt = f"{done + 1} of {count}{left}: one entity? [y]es [n]o [s]kip {tell}[u]ndo [q]uit: "
        said, note = _typed(prompt)
        if said == "quit":
            return
        try:
            done = _apply(review, question, said, done, note)
        except (ContradictionError, LikelihoodError) as error:
            console.note(f"not kept: {error}")


def by_lines(review: Review[Q], _: object, count: int) -> None:
    """Write each question as a JSON line, and read each answer as one.

    An answer that contradicts others is not kept, and a line explains why.
    """
    from kbforge.files.io import called, lines_of

    said_lines = lines_of(sys.stdin.buffer, called("-"))
    done = 0
    while done < count and (question := review.question()) is not None:
        left = {} if review.n_useful is None else {"left": review.n_useful}
        console.print_json({"question": question.to_json(), **left})
        sys.stdout.flush()
        number, line = next(said_lines, (0, None))
        said, note = ("quit", "") if line is None else _read(line, f"{called('-')}:{number}")
        if said == "quit":
            return
        try:
            done = _apply(review, question, said, done, note)
        except (ContradictionError, LikelihoodError) as error:
            console.print_json({"refused": str(error)})


def by_program(program: Answerer, review: Review[Q], _: object, count: int) -> None:
    """Ask a program at most `count` questions, and say how reliable it is."""
    from kbforge.files.answers import MOST_WRONG, error_rates

    asked = chain(review.checks(program.name), iter(review.question, None))
    with console.working(f"{program.name} answers"):
        for evidence in islice(asked, count):
            said = program.ask(evidence.first.fragment, evidence.second.fragment)
            if said is None:
                break
            # a signal must not lose half of an answer
            with interrupts.deferred():
                review.answer(evidence, *said)
    rates = {by: wrong for by, wrong in error_rates(review.answers).items() if by is not None}
    for by, wrong in islice(rates.items(), _MOST_NAMED):
        binds = "" if wrong <= MOST_WRONG else "; its answers count, and bind nothing"
        console.note(f"{quoted(by, 400)} is wrong at a rate of about {percent(wrong)}{binds}")
    if len(rates) > _MOST_NAMED:
        console.note(f"and {counted(len(rates) - _MOST_NAMED, 'other')}")


def _apply(review: Review[Q], question: Evidence[Q], said: Reply, done: int, note: str) -> int:
    """Apply an answer or a command, and return the number of questions answered so far."""
    from kbforge.store.audit import signed

    # a signal must not lose half of an answer
    with interrupts.deferred(), signed(None, note or None):
        if said == "undo":
            return done - 1 if review.undo() else done
        assert said != "quit"
        if said == "cannot_tell":
            review.cannot_tell(question)
        else:
            review.answer(question, said)
        return done + 1


def _typed(prompt: str) -> tuple[Reply, str]:
    """The answer or command that the user types, and the note after it."""
    while True:
        sys.stdout.write(prompt)
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return "quit", ""
        word, _, note = line.strip().partition(" ")
        if word[:1].lower() in _KEYS:
            return _KEYS[word[:1].lower()], note.strip()
        console.note(f'expected y, n, s, c, u or q, got "{quoted(line.strip())}"')


def _read(line: bytes, where: str) -> tuple[Reply, str]:
    """The answer or command of a line, and its note."""
    from kbforge.files.answers import record_of, same_of
    from kbforge.files.fragments import parse_json, shown

    value = parse_json(line, where)
    if not isinstance(value, dict) or len(value.keys() - {"note"}) != 1:
        raise BadRecord(where, 'an object with "same", "undo" or "quit"', shown(value))
    record = record_of(value, where).only("same", "cannot_tell", "undo", "quit", "note")
    note = record.get("note", str, "text") if "note" in record else ""
    word: Literal["cannot_tell", "undo", "quit"]
    for word in ("cannot_tell", "undo", "quit"):
        if word in record:
            if record.get(word, bool, "true") is not True:
                raise record.wrong(word, "true", "false")
            return word, note
    return same_of(record), note


def side_by_side(evidence: Evidence[Any]) -> Table:
    """Both fragments side by side; values of only one of them are highlighted."""
    from rich.table import Table
    from rich.text import Text

    from kbforge.kb.entities import merged_order

    a, b = evidence.first.fragment, evidence.second.fragment
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("", "", quoted(a.id, 40), quoted(b.id, 40)):
        table.add_column(Text(title), overflow="fold")
    order = merged_order((tuple(a.properties), tuple(b.properties)))
    attributes = sorted(order, key=lambda name: name != "name")
    for attribute in attributes[:_MOST_ROWS]:
        one, other = (x.properties.get(attribute, ()) for x in (a, b))
        sign = " " if not (one and other) else "=" if set(one) == set(other) else "≠"
        row = (_values(one, other), _values(other, one))
        table.add_row(Text(quoted(attribute, 40), style="dim"), sign, *row)
    if len(attributes) > _MOST_ROWS:
        table.add_row(f"… and {len(attributes) - _MOST_ROWS:,} more", "", "", "")
    vectors = [" ".join(f"{x:.4g}" for x in (f.vector or ())[:8]) for f in (a, b)]
    for what, shown in (("vector", vectors), ("source", [a.place, b.place])):
        if any(shown):
            table.add_row(Text(what, style="dim"), "", *(Text(quoted(s or "", 60)) for s in shown))
    return table


def _values(own: Sequence[str], others: Sequence[str]) -> Text:
    from rich.text import Text

    shown = [
        Text(quoted(value, _MOST_CHARACTERS), style="" if value in others else "bold yellow")
        for value in own[:_MOST_VALUES]
    ]
    if len(own) > _MOST_VALUES:
        shown.append(Text(f"… and {len(own) - _MOST_VALUES:,} more"))
    return Text("\n").join(shown)


def show_sampled(evidence: Evidence[CandidatePair]) -> RenderableType:
    """Both fragments of an audit side by side, and the others of their entities."""
    from rich.console import Group
    from rich.text import Text

    from kbforge.files.answers import WHOLE

    others = [line for side in (evidence.first, evidence.second) for line in _beside(side)]
    if evidence.question.how == WHOLE:
        a = quoted(evidence.first.fragment.id, 40)
        others.append(Text(f"say yes if {a} is one with all of these", style="bold"))
    return Group(side_by_side(evidence), *[Text()] * bool(others), *others)


def show_evidence(evidence: Evidence[PairQuestion]) -> RenderableType:
    """Both fragments side by side, their clusters, and the contribution of each attribute."""
    from rich.console import Group
    from rich.text import Text

    question = evidence.question
    state = "together" if question.joined else "apart"
    # dim, because a belief is not a fact
    head = (
        f"now {state}; one entity with probability {percent(question.believed)}"
        f" (reported {percent(question.reported)});"
        f" the answer is expected to correct {question.value:.2g} fragments"
    )
    settles = "; ".join(
        f"{answer} gives {' and '.join(map(str, one.sizes))} fragments"
        + (f" and answers {counted(one.questions, 'other question')}" if one.questions else "")
        for answer, one in evidence.settles.items()
    )
    parts: list[RenderableType] = [
        Text(head, style="dim"),
        Text(settles, style="dim"),
        Text(),
        side_by_side(evidence),
        Text(),
        *_others(evidence),
    ]
    if evidence.explanation is not None:
        others = "the first"
        if evidence.compared > 1:
            others = f"the {evidence.compared:,} fragments of the first"
        unit = "nats" if evidence.probability else "score"
        why = Text(f"evidence that the second belongs with {others} ({unit}):", style="dim")
        parts += [Text(), why, _reasons(evidence.explanation)]
    return Group(*parts)


def _others(evidence: Evidence[PairQuestion]) -> Iterator[RenderableType]:
    """The other fragments of their clusters."""
    from rich.text import Text

    sides = [evidence.first] if evidence.question.joined else [evidence.first, evidence.second]
    for side in sides:
        whose = "both are" if evidence.question.joined else f"{quoted(side.fragment.id, 40)} is"
        besides = side.size - 1 - evidence.question.joined
        if not besides:
            yield Text(f"{whose} with no other", style="dim")
        yield from _beside(side, besides, whose)


def _beside(side: Side, count: int | None = None, whose: str = "") -> Iterator[RenderableType]:
    """The other fragments of a side, of `count`."""
    from rich.text import Text

    if not side.others:
        return
    count = side.size - 1 if count is None else count
    whose = whose or f"{quoted(side.fragment.id, 40)} is"
    yield Text(f"{whose} with {counted(count, 'other')}:", style="dim")
    shown = side.others[:_MOST_BESIDE]
    yield from (Text(f"  {_line(other)}") for other in shown)
    if count > len(shown):
        yield Text(f"  … and {count - len(shown):,} more", style="dim")


def _line(fragment: Fragment) -> str:
    """A fragment on one line, its name first."""
    attributes = sorted(fragment.properties, key=lambda name: name != "name")
    shown = [
        "/".join(quoted(value, _SHOWN_CHARACTERS) for value in values[:_SHOWN_VALUES])
        for values in (fragment.properties[name] for name in attributes[:_SHOWN_ATTRIBUTES])
    ]
    return f"{', '.join(shown) or 'a vector'} ({quoted(fragment.id, 40)})"


def _reasons(explanation: Explanation) -> Table:
    """The contribution of each attribute, the largest first."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 2), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    said = sorted(explanation.attributes.items(), key=lambda item: (-abs(item[1]), item[0]))
    for attribute, nats in said[:_SHOWN_ATTRIBUTES]:
        table.add_row(Text(quoted(attribute, 40)), f"{nats:+.2f}")
    rest = sum(nats for _, nats in said[_SHOWN_ATTRIBUTES:])
    if len(said) > _SHOWN_ATTRIBUTES:
        table.add_row(Text(f"… {len(said) - _SHOWN_ATTRIBUTES:,} more"), f"{rest:+.2f}")
    table.add_row(Text("prior", style="dim"), f"{explanation.prior:+.2f}")
    table.add_row(Text("total", style="bold"), Text(f"{explanation.total:+.2f}", style="bold"))
    return table
