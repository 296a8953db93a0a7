"""The report: a Markdown page with the table, the verdicts and the figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kbforge.files.io import open_output
from kbforge.pictures import save
from kbforge_lab.bench import figures
from kbforge_lab.bench.overview import BELOW, details, long_table, overview, standings
from kbforge_lab.bench.pairs_table import EXPLAINED, pairs_table
from kbforge_lab.bench.race import Reached, race_part
from kbforge_lab.bench.results import Row, TraceRow
from kbforge_lab.bench.runs import setting
from kbforge_lab.bench.summary import Line, Verdict, footnotes
from kbforge_lab.contracts.suite import Plan, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT, TABLE = "report.md", "table.csv"

Column: TypeAlias = tuple[str, Callable[[Line], str]]
"""Its name, and its cell in the row of a line."""

_CAPTIONS = {
    "runtime": "Metrics against the time that a run takes.",
    "particles": "Metrics against the number of particles P.",
    "observations": "The point estimate as fragments arrive.",
    "subproblems": "Subproblems and effective particles.",
    "race": "The best grouping so far against processor seconds.",
    "surrogate": "Metrics against M, the joins that the surrogate proposes a step{at}.",
}

_OVERVIEW = (
    "B-cubed F1, the mean of the fragments' own: mean over the orders (standard deviation, if more "
    f"than one). *!*: more than {BELOW:g} below exact name. *exact name* and *ceiling* are no "
    "models: fragments of one name, and the best that the labels allow anybody who sees what the "
    "fragments say. *best alpha* is in hindsight: of all that was run, greedily at each alpha of a "
    "grid and by the methods beside it, what is best by the labels; behind it the likelihood and "
    "its alpha."
)
_DETAILS = (
    "Seconds with fitting; MiB at the peak; expected calibration error (ECE) of pairs and of "
    "entities, raw and by the confidence map."
)


class Picture(NamedTuple):
    """A figure of a task, the file in the folder that has it, and what it shows."""

    task: str
    figure: str
    file: str
    caption: str


def draw(plan: Plan, rows: Sequence[Row], trace: Sequence[TraceRow], folder: Path) -> list[Picture]:
    """Write all figures that the whole runs allow, `TASK-FIGURE.png`."""
    written = []
    for task in plan.tasks:
        # the figures of a part of the fragments are of another problem
        own = [row for row in rows if row.task == task.name and row.fragments == row.of]
        way = [row for row in trace if row.task == task.name]
        at = figures.ablation_setting(own)
        for name, figure in _figures(plan, own, way).items():
            if figure is not None:
                file = f"{task.name}-{name}.png"
                save(figure, str(folder / file))
                caption = _CAPTIONS[name].format(at=at and f", at {at}")
                written.append(Picture(task.name, name, file, caption))
    return written


def _figures(
    plan: Plan, own: Sequence[Row], way: Sequence[TraceRow]
) -> Mapping[str, Figure | None]:
    """The figures of a task's rows."""
    splitting = next((m for m in plan.methods if m.name == plan.reference), plan.methods[0])
    return {
        "runtime": figures.metric_by_runtime(own, way, plan.methods),
        "particles": figures.metric_by_particles(own, plan.methods),
        "observations": figures.metric_by_observations(way, plan.methods, plan.reference),
        "subproblems": figures.subproblems_and_particles(own, way, splitting, plan.methods),
        "surrogate": figures.surrogate_ablation(own, plan.methods),
        "race": figures.log_posterior_by_seconds(own, plan.methods) if plan.race else None,
    }


def write_report(
    suite: str,
    about: str,
    plan: Plan,
    lines: Sequence[Line],
    judged: Sequence[Verdict],
    notes: Sequence[str],
    pictures: Sequence[Picture],
    raced: Sequence[Reached],
    folder: Path,
) -> None:
    """Write the page; `about` is the paragraph on how the bench was run, `raced` of a race."""
    parts = [f"# Bench: {suite}", about]
    if plan.of_ways:
        parts += _overview_parts(plan, lines)
    elif plan.of_examples:
        parts += [_pairs_part(task, plan, lines) for task in plan.tasks]
    else:
        parts += [_task_part(task.name, plan, lines) for task in plan.tasks]
    if plan.race:
        parts += [race_part(task.name, plan, raced) for task in plan.tasks]
    if judged:
        items = [f"- {_bold_if(v.held is False, v.mark)}: {v.sentence}" for v in judged]
        parts.append("\n".join(["## What must hold", "", *items]))
    if notes:
        parts.append("\n".join(["## Notes", "", *(f"- {note}" for note in notes)]))
    if pictures:
        parts.append("\n\n".join(["## Figures", *map(_picture, pictures)]))
    with open_output(str(folder / REPORT)) as out:
        out.write(("\n\n".join(parts) + "\n").encode())


def _overview_parts(plan: Plan, lines: Sequence[Line]) -> list[str]:
    """One table over all tasks, what the models had seen, and a table of each method."""
    grid = overview(plan, lines)
    notes = [f"*{name}*: {meaning}." for name, meaning in footnotes(lines).items()]
    seen = [f"- {sentence}" for sentence in standings(plan)]
    parts = [f"## {grid.title}\n\n{_OVERVIEW}", grid.markdown(), *notes]
    parts += ["\n".join(["## What the models had seen", "", *seen])] if seen else []
    grids = details(plan, lines)
    parts += [f"## {g.title}\n\n{_DETAILS}\n\n{g.markdown()}" for g in grids]
    return parts


def _pairs_part(task: Task, plan: Plan, lines: Sequence[Line]) -> str:
    size = f"{len(task.examples):,} labelled fragments to learn from, {len(task.fragments):,}"
    table = pairs_table(task, plan, lines).markdown()
    return f"## {task.name}\n\n{size} to group. {EXPLAINED}\n\n{table}"


def write_table(plan: Plan, lines: Sequence[Line], folder: Path) -> None:
    """Write all figures of a comparison of whole ways to a grouping as CSV."""
    with open_output(str(folder / TABLE)) as out:
        out.write(long_table(plan, lines).encode())


def _bold_if(wanted: bool, text: str) -> str:
    return f"**{text}**" if wanted else text


def _picture(picture: Picture) -> str:
    task, figure, file, caption = picture
    return f"{task}: {caption}\n\n![{task}, {figure}]({file})"


def _task_part(task: str, plan: Plan, lines: Sequence[Line]) -> str:
    (size,) = (len(t.fragments) for t in plan.tasks if t.name == task)
    own = [line for line in lines if line.task == task]
    text = (
        f"## {task}\n\n{size:,} fragments. Means over the runs (standard deviation, if more than "
        "one); evaluations are the sets that the likelihood scored; "
        f"CPU x {plan.reference} is the processor time over that of {plan.reference}."
    )
    if any(key[0] == task for key in plan.published):
        text += " *Paper*: the published figures."
    notes = [f"*{name}*: {meaning}." for name, meaning in footnotes(own).items()]
    return "\n\n".join([text, table(task, plan, own), *notes])


def table(task: str, plan: Plan, lines: Sequence[Line]) -> str:
    """The Markdown table of a task, the paper's figures beside ours where there are any."""
    reference = next((line for line in lines if line.method.name == plan.reference), None)
    columns = _columns(task, plan, reference)
    head = [name for name, _ in columns]
    ruler = ["---", *["---:"] * (len(head) - 1)]
    rows = [[cell(line) for _, cell in columns] for line in lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ruler, *rows])


def _columns(task: str, plan: Plan, reference: Line | None) -> list[Column]:
    known = {method: figures for (t, method), figures in plan.published.items() if t == task}
    scored = {name: figures.log_posterior for name, figures in known.items()}
    base = known.get(plan.reference)
    base_cpu = reference.cpu_seconds.mean if reference and reference.compares else None
    columns: list[Column] = [
        ("method", lambda line: f"{line.method.name} {setting(line.method)}".strip()),
        ("runs", lambda line: f"{line.runs}" + (f" ({line.endings})" if line.endings else "")),
        ("log posterior", lambda line: line.log_posterior.text(1)),
    ]
    if any(scored.values()):
        columns.append(("paper", lambda line: _published(scored.get(line.method.name), "g")))
    columns.append(("F1", lambda line: line.f1.text(3)))
    if known:
        f1 = {name: figures.f1 for name, figures in known.items()}
        columns.append(("paper", lambda line: _published(f1.get(line.method.name), ".2f")))
    columns += [
        ("precision", lambda line: line.precision.text(3)),
        ("recall", lambda line: line.recall.text(3)),
        ("entities", lambda line: line.entities.text(1)),
        ("evaluations", lambda line: f"{line.model_evaluations.mean:,.0f}"),
        ("seconds", lambda line: _rounded(line.seconds.mean, 3)),
        ("CPU seconds", lambda line: _rounded(line.cpu_seconds.mean, 3)),
        (
            f"CPU x {plan.reference}",
            lambda line: _ratio(line.cpu_seconds.mean if line.compares else None, base_cpu),
        ),
    ]
    if known:
        minutes = {name: figures.minutes for name, figures in known.items()}
        base_minutes = base.minutes if base else None
        columns += [
            ("paper, minutes", lambda line: _given(minutes.get(line.method.name))),
            (
                f"paper, x {plan.reference}",
                lambda line: _ratio(minutes.get(line.method.name), base_minutes),
            ),
        ]
    return columns


def _published(figures: tuple[float, float | None] | None, form: str) -> str:
    if figures is None:
        return ""
    mean, sd = figures
    return f"{mean:{form}}" if sd is None else f"{mean:{form}} ({sd:{form}})"


def _given(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _ratio(value: float | None, base: float | None) -> str:
    return "" if value is None or not base else _rounded(value / base, 2)


def _rounded(value: float, digits: int) -> str:
    """To so many significant digits, but never to tens or more."""
    return f"{value:.{digits}g}" if value < 10 ** (digits - 1) else f"{value:,.0f}"
