"""The report: a Markdown page with tables, verdicts and figures.

Two tables over all tasks, of item F1 and of pairwise F1, hold the default of `kbforge cluster`
against groupings that need no model, the best alpha in hindsight and the ceiling. A third has the
means of both over groups of tasks and over their families, each family counting once, and how often
one of two groupings without a model is ahead.

A race compares samplers, which never end: it says when a method's best grouping was first as
probable as the one that the lowest method ended with on the same order, in processor seconds.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import orjson

from kbforge.files.io import open_output
from kbforge.pictures import save
from kbforge_lab.bench import figures
from kbforge_lab.bench.results import Row, TraceRow
from kbforge_lab.bench.runs import setting
from kbforge_lab.bench.summary import Line, Spread, Verdict, footnotes
from kbforge_lab.suites.plan import Baseline, Method, Metric, Standing, SuitePlan, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BELOW = 0.005
"""A default that is further below the better of the rivals than this is marked with `!`."""
_RIVALS: tuple[Baseline, ...] = ("exact name", "TF-IDF")
_MEASURES: Mapping[Metric, str] = {"f1": "items", "pairwise_f1": "pairs"}

_BEST, _GAIN, _BEHIND = "best alpha", "above the better", "behind"
_STANDINGS: Mapping[Standing | None, str] = {
    "held out": (
        "Leave-one-family-out: the default's models were trained on all families but the set's own"
    ),
    "unseen": "The default's models were trained on no set of the family, and so on nothing here",
    "seen": "NOT leave-one-family-out: the default's models were trained on sets of this family",
    None: "Whether the default's models were trained on data of this kind is not known",
}


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of cells; the first `texts` columns are text, the others numbers."""

    title: str
    head: list[str]
    rows: list[list[str]]
    texts: int = 0

    def markdown(self) -> str:
        ruler = ["---" if k < self.texts else "---:" for k in range(len(self.head))]
        return "\n".join(
            "| " + " | ".join(cells) + " |" for cells in [self.head, ruler, *self.rows]
        )


def standings(plan: SuitePlan) -> list[str]:
    """A sentence for each way in which the default's models stand to tasks, and to which."""
    return [
        f"{meaning}: {', '.join(names)}."
        for standing, meaning in _STANDINGS.items()
        if (names := [task.name for task in plan.tasks if task.standing == standing])
    ]


def overview(plan: SuitePlan, lines: Sequence[Line]) -> list[Grid]:
    """F1 of all methods on all tasks by each measure, then the means."""
    tables = [_Table(plan, lines, metric) for metric in _MEASURES]
    return [*(table.grid() for table in tables), _means(plan, tables)]


def _means(plan: SuitePlan, tables: Sequence[_Table]) -> Grid:
    families = {task.name: task.family or task.name for task in plan.tasks}
    rows = []
    for called, group in (plan.groups or {"all sets": tuple(families)}).items():
        by_family: dict[str, list[str]] = {}
        for name in group:
            by_family.setdefault(families.get(name, name), []).append(name)
        rows += [[called, *table.means([[name] for name in group])] for table in tables]
        if len(by_family) < len(group):
            of = list(by_family.values())
            rows += [[f"{called}, by family", *table.means(of)] for table in tables]
    # of a group of which nothing ran there is nothing to tell
    told = [row for row in rows if any(row[2:-1])]
    return Grid("Means", ["mean over", "F1 of", *tables[0].columns, _BEHIND], told, texts=2)


def details(plan: SuitePlan, lines: Sequence[Line]) -> list[Grid]:
    """A table of each method that clusters once: scores, costs and calibration."""
    return [
        _detail(method, plan, own)
        for method in plan.methods
        if method.baseline is None
        and not method.alphas
        and (own := [line for line in lines if line.method.name == method.name])
    ]


def long_table(plan: SuitePlan, lines: Iterable[Line]) -> str:
    """All figures, one line a task and method, as CSV."""
    families = {task.name: task for task in plan.tasks}
    rows = [
        {"set": line.task, "family": families[line.task].family}
        | {"standing": families[line.task].standing or "", "method": line.method.name}
        | _long_row(line)
        for line in lines
    ]
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()


class _Table:
    """One measure of the lines of a plan, by task and method."""

    def __init__(self, plan: SuitePlan, lines: Sequence[Line], metric: Metric) -> None:
        self._plan = plan
        self._metric = metric
        self._by = {(line.task, line.method.name): line for line in lines}
        ran = {line.method.name for line in lines}
        self._methods = [method for method in plan.methods if method.name in ran]
        self._rivals = [m.name for m in self._methods if m.baseline in _RIVALS]
        self.columns = list(self._columns())

    def _columns(self) -> Iterator[str]:
        """Simple groupings, the default, the others, the best alpha, the ceiling."""
        yield from (m.name for m in self._methods if m.baseline not in (None, "ceiling"))
        plain = [m.name for m in self._methods if m.baseline is None and not m.alphas]
        for name in sorted(plain, key=lambda name: name != self._plan.reference):
            yield name
            if name == self._plan.reference and self._rivals:
                yield _GAIN
        if any(method.alphas for method in self._methods):
            yield _BEST
        yield from (m.name for m in self._methods if m.baseline == "ceiling")

    def grid(self) -> Grid:
        """A row a task."""
        head = ["set", "family", "fragments", "entities", *self.columns, "took"]
        rows = []
        for task in self._plan.tasks:
            own = [line for (name, _), line in self._by.items() if name == task.name]
            if own:
                sizes = f"{len(task.fragments):,}", f"{own[0].gold_entities:,}"
                cells = [self._cell(task.name, name) for name in self.columns]
                took = _took(self._by.get((task.name, self._plan.reference)))
                rows.append([task.name, task.family, *sizes, *cells, took])
        return Grid(f"F1 of {_MEASURES[self._metric]}", head, rows, texts=2)

    def means(self, parts: Sequence[Sequence[str]]) -> list[str]:
        """The measure, means of the means of parts, and on how many sets the default is behind.

        A part of which a method lacks a set does not count for it.
        """
        cells = [_MEASURES[self._metric]]
        for name in self.columns:
            values = [[self._value(task, name) for task in part] for part in parts]
            known = [[v for v in part if v is not None] for part in values]
            whole = [k for k, part in zip(known, values, strict=True) if len(k) == len(part)]
            cells.append(_mean_text([statistics.fmean(part) for part in whole], len(parts), name))
        gains = [self._value(task, _GAIN) for part in parts for task in part]
        compared = [gain for gain in gains if gain is not None]
        behind = f"{sum(map(_is_behind, compared))} of {len(compared)}" if compared else ""
        return [*cells, behind]

    def _best(self, task: str) -> Line | None:
        """The method that clusters with the best item F1; None without a grid of alphas."""
        if not any((task, m.name) in self._by for m in self._methods if m.alphas):
            return None
        found = [self._by.get((task, m.name)) for m in self._methods if m.baseline is None]
        whole = [line for line in found if line is not None and line.compares]
        return max(whole, key=lambda line: line.f1.mean, default=None)

    def _line(self, task: str, name: str) -> Line | None:
        return self._best(task) if name == _BEST else self._by.get((task, name))

    def _value(self, task: str, name: str) -> float | None:
        if name == _GAIN:
            ours = self._value(task, self._plan.reference)
            theirs = [self._value(task, rival) for rival in self._rivals]
            known = [value for value in theirs if value is not None]
            return None if ours is None or not known else ours - max(known)
        line = self._line(task, name)
        spread = self._spread(line) if line is not None and line.compares else None
        return None if spread is None else spread.mean

    def _spread(self, line: Line) -> Spread | None:
        found: Spread | None = getattr(line, self._metric)
        return found

    def _cell(self, task: str, name: str) -> str:
        if name == _GAIN:
            gain = self._value(task, name)
            return "" if gain is None else f"{gain:+.3f}{' !' * _is_behind(gain)}"
        line = self._line(task, name)
        if line is None:
            return ""
        if not line.compares:
            return "over time"
        return _text(self._spread(line)) + (f" ({_took(line)})" if name == _BEST else "")


def _is_behind(gain: float) -> bool:
    return round(gain, 9) < -BELOW


def _text(spread: Spread | None) -> str:
    return "" if spread is None else spread.text(3)


def _took(line: Line | None) -> str:
    """The model, and its alpha."""
    if line is None:
        return ""
    return f"{line.model} {_alpha(line)}".strip()


def _alpha(line: Line) -> str:
    """Alpha in three digits, or as a whole number where it is no larger than people read."""
    if line.alpha is None:
        return ""
    alpha = line.alpha.mean
    return f"{alpha:,.0f}" if 1_000 <= alpha < 1_000_000 else f"{alpha:.3g}"


def _mean_text(values: Sequence[float], of: int, name: str) -> str:
    if not values:
        return ""
    mean = f"{statistics.fmean(values):{'+.3f' if name == _GAIN else '.3f'}}"
    return mean if len(values) == of else f"{mean} ({len(values)} of {of})"


def _detail(method: Method, plan: SuitePlan, lines: Sequence[Line]) -> Grid:
    head = ["set", "runs", "P", "R", "F1", "harmonic F1", "pairs P", "R", "F1", "entities", "gold"]
    head += ["alpha", "seconds", "MiB", "pairs raw", "mapped", "entities raw", "mapped"]
    rows = [
        [
            line.task,
            f"{line.runs}" + (f" ({line.endings})" if line.endings else ""),
            *map(_text, (line.precision, line.recall, line.f1)),
            f"{line.harmonic_f1:.3f}",
            *map(_text, (line.pairwise_precision, line.pairwise_recall, line.pairwise_f1)),
            f"{line.entities.mean:,.0f}",
            f"{line.gold_entities:,}",
            _alpha(line),
            f"{line.seconds.mean:,.1f}",
            "" if line.peak_mib is None else f"{line.peak_mib.mean:,.0f}",
            *map(_text, (line.pairs_ece, line.pairs_ece_mapped)),
            *map(_text, (line.entities_ece, line.entities_ece_mapped)),
        ]
        for line in lines
    ]
    errors = [f"mean over {len(lines)}", *[""] * 13]
    for name in ("pairs_ece", "pairs_ece_mapped", "entities_ece", "entities_ece_mapped"):
        known = [spread.mean for line in lines if (spread := getattr(line, name)) is not None]
        errors.append(f"{statistics.fmean(known):.3f}" if known else "")
    return Grid(method.name, head, [*rows, errors], texts=1)


def _long_row(line: Line) -> dict[str, Any]:
    """Whatever a line knows, by name: numbers as they are, nothing for what is not known."""
    out: dict[str, Any] = {
        "runs": line.runs,
        "whole": line.compares,
        "fragments": line.of,
        "gold_entities": line.gold_entities,
        "model": line.model,
        "harmonic_f1": line.harmonic_f1,
    }
    for name in (
        *("f1", "precision", "recall", "pairwise_precision", "pairwise_recall", "pairwise_f1"),
        *("entities", "alpha", "seconds", "cpu_seconds", "peak_mib"),
        *("pairs_ece", "pairs_ece_mapped", "entities_ece", "entities_ece_mapped"),
    ):
        spread: Spread | None = getattr(line, name)
        out[name] = None if spread is None else spread.mean
        out[f"{name}_sd"] = None if spread is None else spread.sd
    return out


EXPLAINED = (
    "P, R and F: precision, recall and their harmonic mean of the pairs that share a cluster; item "
    "F1: the mean of the fragments' own B-cubed F1; Rand "
    "index; normalised edit score; NVI = 1 - variation of information / log n. Means over the runs "
    "(standard deviation of F, if more than one); of a chain, over its second half. J is the "
    "unnormalised log joint density, which lines of one model can be compared by; R-hat is of J "
    "over the runs, 1 if all chains look alike; draws is how many independent ones theirs are "
    "worth."
)


def pairs_table(task: Task, plan: SuitePlan, lines: Sequence[Line]) -> Grid:
    """A line a method of the task, the paper's F beside ours where there is one."""
    known = {method: found.f1[0] for (t, method), found in plan.published.items() if t == task.name}
    head = ["method", "runs", *(["paper's F"] if known else [])]
    head += [
        "F",
        "P",
        "R",
        "item F1",
        "Rand",
        "edit score",
        "NVI",
        "entities",
        "J",
        "R-hat",
        "draws",
    ]
    head.append("CPU seconds")
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
        _text(line.pairwise_f1),
        *map(_mean, (line.pairwise_precision, line.pairwise_recall)),
        *map(_mean, (line.f1, line.rand, line.edit_score)),
        "" if vi is None else f"{1 - vi.mean:.3f}",
        f"{line.entities.mean:,.1f}",
        "" if line.r_hat is None else f"{line.log_posterior.mean:,.0f}",
        "" if line.r_hat is None else f"{line.r_hat:.2f}",
        "" if line.effective_size is None else f"{line.effective_size:,.0f}",
        f"{line.cpu_seconds.mean:,.2f}",
    ]


def _mean(spread: Spread | None) -> str:
    return "" if spread is None else f"{spread.mean:.3f}"


_ROUNDING = 1e-6  # relative: of what is equal


@dataclass(frozen=True, slots=True)
class RaceTime:
    """When a method reached the level of a task."""

    task: str
    method: str
    level: Spread  # the log posterior that the slowest ended at, nats
    seconds: Spread  # of the processor, by order of the data
    times: float  # the same in units of the fastest method's mean


def reached(plan: SuitePlan, rows: Sequence[Row]) -> list[RaceTime]:
    """Of every task and method of the table, fastest first; of orders that all methods ran on."""
    out = []
    names = [method.name for method in plan.methods]
    for task in plan.tasks:
        own = [row for row in rows if row.task == task.name and row.fragments == row.of]
        by_order: dict[int, dict[str, Row]] = {}
        for row in own:
            by_order.setdefault(row.shuffle, {})[row.method] = row
        ran = {row.method for row in own}
        orders = [runs for _, runs in sorted(by_order.items()) if runs.keys() == ran]
        levels = [min(row.log_posterior for row in runs.values()) for runs in orders]
        found = {
            name: [_first(runs[name], level) for runs, level in zip(orders, levels, strict=True)]
            for name in names
            if name in ran and orders
        }
        spreads = {name: Spread.of(seconds) for name, seconds in found.items()}
        least = min((spread.mean for spread in spreads.values()), default=0.0)
        for name in sorted(spreads, key=lambda name: spreads[name].mean):
            times = spreads[name].mean / least if least else 1.0
            out.append(RaceTime(task.name, name, Spread.of(levels), spreads[name], times))
    return out


def _first(row: Row, level: float) -> float:
    """Processor seconds until a run had reached a level, at the latest when it ended."""
    enough = level - _ROUNDING * abs(level)
    way: list[tuple[float, float]] = orjson.loads(row.way)
    return min((seconds for seconds, best in way if best >= enough), default=row.cpu_seconds)


def race_part(task: str, plan: SuitePlan, raced: Sequence[RaceTime]) -> str:
    """The section of a task, in Markdown."""
    own = [one for one in raced if one.task == task]
    if not own:
        return f"## {task}: the race\n\nNo order of the data has runs of all methods."
    text = (
        "Processor seconds until a method's best grouping was as probable as the one that the "
        f"slowest method ended with (log posterior {own[0].level.text(1)}), and how often that is "
        "the fastest one's."
    )
    rows = [[one.method, one.seconds.text(2), f"{one.times:.1f}"] for one in own]
    grid = Grid(task, ["method", "CPU seconds", "x fastest"], rows, texts=1)
    return "\n\n".join([f"## {task}: the race", text, grid.markdown()])


REPORT, TABLE = "report.md", "table.csv"

Column: TypeAlias = tuple[str, Callable[[Line], str]]
"""Its name, and its cell in the row of a line."""

_CAPTIONS = {
    "particles": "Metrics against the number of particles P.",
    "observations": "The point estimate as fragments arrive.",
    "race": "The best grouping so far against processor seconds.",
    "surrogate": "Metrics against M, the joins that the surrogate proposes a step{at}.",
}

_OVERVIEW = (
    "Of items: the mean of the fragments' own B-cubed F1. Of pairs: F1 of the pairs that share an "
    "entity. Means over the orders (standard deviation, if more than one). These need no model: "
    "*all apart*; *exact name*, fragments of one name; *TF-IDF*, fragments whose texts are alike "
    "by their trigrams, from a cosine of .6 on, and of linked tables one to one from .3 on; and "
    "*ceiling*, the best that the labels allow anybody who sees what the fragments say. *Above "
    f"the better*: of exact name and TF-IDF; *!* and *{_BEHIND}* where the default is more than "
    f"{BELOW:g} below. *Best alpha* is in hindsight: of all that was run, greedily at each alpha "
    "of a grid and by the methods beside it, what has the best F1 of items by the labels; behind "
    "it the likelihood and its alpha."
)
_DETAILS = (
    "P, R and F1 are B-cubed, F1 of items, then those of pairs. Seconds with fitting; MiB at the "
    "peak; expected calibration error (ECE) of pairs and of entities, raw and by the confidence "
    "map."
)


class Picture(NamedTuple):
    """A figure of a task, the file in the folder that has it, and what it shows."""

    task: str
    figure: str
    file: str
    caption: str


def draw(
    plan: SuitePlan, rows: Sequence[Row], trace: Sequence[TraceRow], folder: Path
) -> list[Picture]:
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
    plan: SuitePlan, own: Sequence[Row], way: Sequence[TraceRow]
) -> Mapping[str, Figure | None]:
    """The figures of a task's rows."""
    return {
        "particles": figures.metric_by_particles(own, plan.methods),
        "observations": figures.metric_by_observations(way, plan.methods, plan.reference),
        "surrogate": figures.surrogate_ablation(own, plan.methods),
        "race": figures.log_posterior_by_seconds(own, plan.methods) if plan.race else None,
    }


def write_report(
    suite: str,
    about: str,
    plan: SuitePlan,
    lines: Sequence[Line],
    judged: Sequence[Verdict],
    notes: Sequence[str],
    pictures: Sequence[Picture],
    raced: Sequence[RaceTime],
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


def _overview_parts(plan: SuitePlan, lines: Sequence[Line]) -> list[str]:
    """One table over all tasks, what the models had seen, and a table of each method."""
    *tables, means = overview(plan, lines)
    notes = [f"*{name}*: {meaning}." for name, meaning in footnotes(lines).items()]
    seen = [f"- {sentence}" for sentence in standings(plan)]
    parts = [f"## {means.title}\n\n{_OVERVIEW}", means.markdown()]
    parts += [f"## {grid.title}\n\n{grid.markdown()}" for grid in tables] + notes
    parts += ["\n".join(["## What the models had seen", "", *seen])] if seen else []
    grids = details(plan, lines)
    parts += [f"## {g.title}\n\n{_DETAILS}\n\n{g.markdown()}" for g in grids]
    return parts


def _pairs_part(task: Task, plan: SuitePlan, lines: Sequence[Line]) -> str:
    size = f"{len(task.examples):,} labelled fragments to learn from, {len(task.fragments):,}"
    table = pairs_table(task, plan, lines).markdown()
    return f"## {task.name}\n\n{size} to group. {EXPLAINED}\n\n{table}"


def write_table(plan: SuitePlan, lines: Sequence[Line], folder: Path) -> None:
    """Write all figures of a comparison of whole ways to a grouping as CSV."""
    with open_output(str(folder / TABLE)) as out:
        out.write(long_table(plan, lines).encode())


def _bold_if(wanted: bool, text: str) -> str:
    return f"**{text}**" if wanted else text


def _picture(picture: Picture) -> str:
    task, figure, file, caption = picture
    return f"{task}: {caption}\n\n![{task}, {figure}]({file})"


def _task_part(task: str, plan: SuitePlan, lines: Sequence[Line]) -> str:
    (size,) = (len(t.fragments) for t in plan.tasks if t.name == task)
    own = [line for line in lines if line.task == task]
    text = (
        f"## {task}\n\n{size:,} fragments. Means over the runs (standard deviation, if more than "
        "one). F1, precision and recall are B-cubed, F1 of items, then those of pairs; evaluations "
        "are the sets that the likelihood scored; "
        f"CPU x {plan.reference} is the processor time over that of {plan.reference}."
    )
    if any(key[0] == task for key in plan.published):
        text += " *Paper*: the published figures."
    notes = [f"*{name}*: {meaning}." for name, meaning in footnotes(own).items()]
    return "\n\n".join([text, table(task, plan, own), *notes])


def table(task: str, plan: SuitePlan, lines: Sequence[Line]) -> str:
    """The Markdown table of a task, the paper's figures beside ours where there are any."""
    reference = next((line for line in lines if line.method.name == plan.reference), None)
    columns = _columns(task, plan, reference)
    rows = [[cell(line) for _, cell in columns] for line in lines]
    return Grid(task, [name for name, _ in columns], rows, texts=1).markdown()


def _columns(task: str, plan: SuitePlan, reference: Line | None) -> list[Column]:
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
        ("pairs F1", lambda line: _text(line.pairwise_f1)),
        ("pairs precision", lambda line: _text(line.pairwise_precision)),
        ("pairs recall", lambda line: _text(line.pairwise_recall)),
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
