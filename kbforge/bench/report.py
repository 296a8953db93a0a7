"""The report: a Markdown page with the table, the verdicts and the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbforge.bench import figures
from kbforge.bench.results import Row, TraceRow
from kbforge.bench.runs import setting
from kbforge.bench.summary import Line, Verdict
from kbforge.contracts.suite import Plan
from kbforge.io import open_output
from kbforge.pictures.canvas import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT = "report.md"

_CAPTIONS = {
    "runtime": "Metrics against the time that a run takes.",
    "particles": "Metrics against the number of particles P.",
    "observations": "The point estimate as fragments arrive.",
    "subproblems": "Subproblems and effective particles.",
    "surrogate": "Metrics against M, the joins that the surrogate proposes a step.",
}


def draw(plan: Plan, rows: Sequence[Row], trace: Sequence[TraceRow], folder: Path) -> list[str]:
    """Write all figures that the whole runs allow, `TASK-FIGURE.png`; returns their names."""
    written = []
    for task in plan.tasks:
        for name, figure in _figures(plan, task.name, rows, trace).items():
            if figure is not None:
                file = f"{task.name}-{name}.png"
                save(figure, str(folder / file))
                written.append(file)
    return written


def _figures(
    plan: Plan, task: str, rows: Sequence[Row], trace: Sequence[TraceRow]
) -> Mapping[str, Figure | None]:
    # the figures of a part of the fragments are of another problem
    own = [row for row in rows if row.task == task and row.fragments == row.of]
    way = [row for row in trace if row.task == task]
    splitting = next((m for m in plan.methods if m.name == plan.reference), plan.methods[0])
    return {
        "runtime": figures.metric_by_runtime(own, way, plan.methods),
        "particles": figures.metric_by_particles(own, plan.methods),
        "observations": figures.metric_by_observations(way, plan.methods, plan.reference),
        "subproblems": figures.subproblems_and_particles(own, way, splitting),
        "surrogate": figures.surrogate_ablation(own),
    }


def write_report(
    suite: str,
    plan: Plan,
    lines: Sequence[Line],
    judged: Sequence[Verdict],
    notes: Sequence[str],
    pictures: Sequence[str],
    folder: Path,
) -> None:
    """Write the page.

    Raises:
        KBForgeError: the file cannot be written.

    """
    parts = [f"# Bench: {suite}", *(_task_part(task.name, plan, lines) for task in plan.tasks)]
    if judged:
        marks = {True: "held", False: "**FAILED**", None: "not tested"}
        items = [f"- {marks[v.held]}: {v.sentence}" for v in judged]
        parts.append("\n".join(["## What must hold", "", *items]))
    if notes:
        parts.append("\n".join(["## Notes", "", *(f"- {note}" for note in notes)]))
    if pictures:
        parts.append("\n\n".join(["## Figures", *map(_picture, pictures)]))
    with open_output(str(folder / REPORT)) as out:
        out.write(("\n\n".join(parts) + "\n").encode())


def _picture(file: str) -> str:
    task, _, name = file.removesuffix(".png").rpartition("-")
    return f"{task}: {_CAPTIONS[name]}\n\n![{task}, {name}]({file})"


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
    return f"{text}\n\n{table(task, plan, own)}"


def table(task: str, plan: Plan, lines: Sequence[Line]) -> str:
    """The Markdown table of a task, the paper's figures beside ours where there are any."""
    published = {method for t, method in plan.published if t == task}
    reference = next((line for line in lines if line.method.name == plan.reference), None)
    head = ["method", "runs", "log posterior", "F1", "precision", "recall", "entities"]
    head += ["evaluations", "seconds", "CPU seconds", f"CPU x {plan.reference}"]
    if published:
        head[3:3] = ["paper"]
        head[5:5] = ["paper"]
        head += ["paper, minutes", f"paper, x {plan.reference}"]
    rows = [_cells(line, reference, plan, bool(published)) for line in lines]
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ruler, *rows])


def _cells(line: Line, reference: Line | None, plan: Plan, beside: bool) -> list[str]:
    runs = str(line.runs) + (f" ({line.cut} cut short)" if line.cut else "")
    cells = [
        f"{line.method.name} {setting(line.method)}".strip(),
        runs,
        line.log_posterior.text(1),
        line.f1.text(3),
        line.precision.text(3),
        line.recall.text(3),
        line.entities.text(1),
        f"{line.model_evaluations.mean:,.0f}",
        _rounded(line.seconds.mean, 3),
        _rounded(line.cpu_seconds.mean, 3),
        _ratio(line.cpu_seconds.mean, reference.cpu_seconds.mean if reference else None),
    ]
    if not beside:
        return cells
    known = plan.published.get((line.task, line.method.name))
    base = plan.published.get((line.task, plan.reference))
    cells[3:3] = [f"{known.log_posterior[0]:g} ({known.log_posterior[1]:g})" if known else ""]
    cells[5:5] = [f"{known.f1[0]:.2f} ({known.f1[1]:.2f})" if known else ""]
    cells.append(f"{known.minutes:g}" if known else "")
    cells.append(_ratio(known.minutes, base.minutes if base else None) if known else "")
    return cells


def _ratio(value: float, base: float | None) -> str:
    return _rounded(value / base, 2) if base else ""


def _rounded(value: float, digits: int) -> str:
    """To so many significant digits, but never to tens or more."""
    return f"{value:.{digits}g}" if value < 10 ** (digits - 1) else f"{value:,.0f}"
