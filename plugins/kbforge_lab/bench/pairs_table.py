"""The table of a comparison by examples: scores of pairs, and convergence of chains."""

from __future__ import annotations

from collections.abc import Sequence

from kbforge_lab.bench.overview import Grid
from kbforge_lab.bench.summary import Line, Spread
from kbforge_lab.contracts.suite import Plan, Task

EXPLAINED = (
    "P, R and F: precision, recall and their harmonic mean of the pairs that share a cluster; Rand "
    "index; normalised edit score; NVI = 1 - variation of information / log n. Means over the runs "
    "(standard deviation of F, if more than one); of a chain, over its second half. J is the "
    "unnormalised log joint density, which lines of one model can be compared by; R-hat is of J "
    "over the runs, 1 if all chains look alike; draws is how many independent ones theirs are "
    "worth."
)


def pairs_table(task: Task, plan: Plan, lines: Sequence[Line]) -> Grid:
    """A line a method of the task, the paper's F beside ours where there is one."""
    known = {method: found.f1[0] for (t, method), found in plan.published.items() if t == task.name}
    head = [
        "method",
        "runs",
        *(["paper's F"] if known else []),
        "F",
        "P",
        "R",
        "Rand",
        "edit score",
    ]
    head += ["NVI", "entities", "J", "R-hat", "draws", "CPU seconds"]
    rows = []
    for line in lines:
        if line.task != task.name:
            continue
        name = line.method.name
        paper = [f"{known[name]:.3f}" if name in known else ""] if known else []
        rows.append([name, f"{line.runs}", *paper, *_cells(line)])
    return Grid(task.name, head, rows, texts=1)


def _cells(line: Line) -> list[str]:
    vi = line.normalised_vi
    return [
        "" if line.pairwise_f1 is None else line.pairwise_f1.text(3),
        *map(_mean, (line.pairwise_precision, line.pairwise_recall, line.rand, line.edit_score)),
        "" if vi is None else f"{1 - vi.mean:.3f}",
        f"{line.entities.mean:,.1f}",
        "" if line.r_hat is None else f"{line.log_posterior.mean:,.0f}",
        "" if line.r_hat is None else f"{line.r_hat:.2f}",
        "" if line.effective_size is None else f"{line.effective_size:,.0f}",
        f"{line.cpu_seconds.mean:,.2f}",
    ]


def _mean(spread: Spread | None) -> str:
    return "" if spread is None else f"{spread.mean:.3f}"
