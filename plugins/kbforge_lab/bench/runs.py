"""Runs of a bench: one method on one order of one task; their keys and settings.

The key is a digest of everything that decides the result: the data in order, the models, the
method with its setting, the budget, and the version of the program. A run whose key is among the
results is not repeated; a bench whose plan changed repeats what the change concerns.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from kbforge import __version__, registry
from kbforge.contracts.fragment import Fragment
from kbforge.errors import UsageError, quoted
from kbforge.models.bundle import MANIFEST, is_name
from kbforge_lab.bench.results import Format
from kbforge_lab.suites.plan import Method, Model, SuitePlan, Task


@dataclass(frozen=True)
class BenchRun:
    """One method on one order of one task."""

    suite: str
    task: Task
    method: Method
    shuffle: int
    seconds: float
    seed: int = 0
    task_digest: str = ""  # "" computes it for each run, which takes a while

    @cached_property
    def key(self) -> str:
        """Equal for runs that must give equal results."""
        content = {
            "program": __version__,
            "suite": self.suite,
            "task": self.task_digest or _task_digest(self.task),
            "method": _method_content(self.method),
            "shuffle": self.shuffle,
            "seconds": self.seconds,
        }
        # not there where it is 0: a folder of an earlier bench then has the same runs
        content |= {"seed": self.seed} if self.seed else {}
        return _digest(orjson.dumps(content, option=orjson.OPT_SORT_KEYS))

    @property
    def identity(self) -> dict[str, Any]:
        """The columns that say which run a row is of."""
        method = self.method
        return {
            "key": self.key,
            "suite": self.suite,
            "task": self.task.name,
            "method": method.name,
            "particles": method.particles,
            "surrogate": method.surrogate,
            "max_evals": method.max_evals,
            "shuffle": self.shuffle,
            "seed": self.seed,
        }

    @property
    def called(self) -> str:
        moved = f" of seed {self.seed}" if self.seed else ""
        method = f"{self.method.name} {setting(self.method)}"
        return f"{method}on {self.task.name}, order {self.shuffle}{moved}"

    def fragments(self) -> list[Fragment]:
        """The task's fragments in this run's order."""
        return [self.task.fragments[i] for i in order(self.task, self.shuffle, self.seed)]

    @property
    def method_seed(self) -> int:
        """What the method draws its random numbers from: another one for every order and seed."""
        if not self.seed:
            return self.shuffle
        return int(np.random.SeedSequence([self.seed, self.shuffle]).generate_state(1)[0])


def order(task: Task, shuffle: int, seed: int = 0) -> Sequence[int]:
    """Indices of the task's fragments in a shuffle; with a seed, none is the task's own."""
    n = len(task.fragments)
    given = task.orders or (tuple(range(n)),)
    if not seed and shuffle < len(given):
        return given[shuffle]
    entropy = [n, shuffle, seed] if seed else [n, shuffle]
    drawn: list[int] = np.random.default_rng(entropy).permutation(n).tolist()
    return drawn


def setting(method: Method) -> str:
    """P and M in words, "" for a method that has neither; ends with a space."""
    parts = [] if method.particles is None else [f"P={method.particles}"]
    if method.max_evals is not None:
        parts.append(f"M={method.max_evals}")
    elif method.surrogate and method.particles is not None:
        parts.append("M=P")
    return f"({', '.join(parts)}) " if parts else ""


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a plan to run; None is the plan's own."""

    tasks: tuple[str, ...] | None = None  # names in any case, with hyphens or spaces
    methods: tuple[str, ...] | None = None
    sweeps: bool = True  # whether to run the settings that only curves need
    shuffles: int | None = None
    seconds: float | None = None
    seed: int = 0


def narrowed(plan: SuitePlan, selection: Selection) -> SuitePlan:
    """The plan with the selection's tasks alone."""
    if selection.tasks is None:
        return plan
    names = _chosen("task", [task.name for task in plan.tasks], selection.tasks)
    return replace(
        plan,
        tasks=tuple(task for task in plan.tasks if task.name in names),
        expectations=tuple(e for e in plan.expectations if e.task in names),
        published={key: found for key, found in plan.published.items() if key[0] in names},
    )


def _chosen(kind: str, known: Iterable[str], wanted: Iterable[str]) -> set[str]:
    """The known names that are wanted, whatever their spelling."""
    by_spelling: dict[str, set[str]] = {}
    for name in (names := list(known)):
        by_spelling.setdefault(_spelled(name), set()).add(name)
    chosen: set[str] = set()
    for name in wanted:
        if _spelled(name) not in by_spelling:
            raise UsageError(
                f'there is no {kind} "{quoted(name)}" in this suite; '
                f"{kind}s: {', '.join(dict.fromkeys(names))}"
            )
        chosen |= by_spelling[_spelled(name)]
    return chosen


def _spelled(name: str) -> str:
    """Equal for `Split SMC` and `split-smc`, a method and its clusterer."""
    return " ".join(name.casefold().replace("-", " ").split())


def select(plan: SuitePlan, selection: Selection) -> tuple[list[Method], list[str]]:
    """The methods that will run, the table's first, and notes on those that cannot."""
    everything = [*plan.methods, *(plan.sweeps if selection.sweeps else ())]
    if selection.methods is not None:
        names = _chosen("method", [method.name for method in everything], selection.methods)
        everything = [method for method in everything if method.name in names]
    lacking = [_not_installed(method) for method in everything]
    missing = [what for what in dict.fromkeys(lacking) if what]
    notes = [f"{what} is not installed; its runs are left out" for what in missing]
    return [m for m, what in zip(everything, lacking, strict=True) if not what], notes


def _not_installed(method: Method) -> str:
    """The plugin that a method needs and nobody has, in words; "" if it has all."""
    if method.baseline is not None or method.grouper is not None:
        return ""
    if method.clusterer not in registry.names("clusterers"):
        return f'the clusterer "{method.clusterer}"'
    wanted = method.likelihood
    if wanted is None or is_name(wanted.name) or Path(wanted.name).exists():
        return ""
    return f'the likelihood "{wanted.name}"'


def runs_of(
    suite: str, plan: SuitePlan, methods: Sequence[Method], selection: Selection
) -> Iterator[BenchRun]:
    """All runs, each once: shuffle by shuffle, so that an early end leaves whole comparisons."""
    seen = set()
    digests = [_task_digest(task) for task in plan.tasks]
    counts = [_shuffles(plan, method, selection) for method in methods]
    for shuffle in range(max(counts, default=0)):
        for task, digest in zip(plan.tasks, digests, strict=True):
            for method, count in zip(methods, counts, strict=True):
                if shuffle >= count:
                    continue
                seconds = selection.seconds or method.seconds or plan.seconds
                run = BenchRun(suite, task, method, shuffle, seconds, selection.seed, digest)
                if run.key not in seen:
                    seen.add(run.key)
                    yield run


def _shuffles(plan: SuitePlan, method: Method, selection: Selection) -> int:
    count = method.shuffles or plan.shuffles
    return count if selection.shuffles is None else min(count, selection.shuffles)


def _task_digest(task: Task) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for fragment in (*task.fragments, *task.examples):
        digest.update(orjson.dumps(fragment.to_json()))
    models = [_model_content(model) for model in (task.likelihood, task.surrogate) if model]
    rest: dict[str, object] = {
        "name": task.name,
        "models": models,
        "alpha": task.alpha,
        "orders": task.orders,
        "linked": task.linked,
    }
    if task.examples:
        rest["examples"] = len(task.examples)
    if task.defaults is not None:
        rest["defaults"] = _folder_digest(Path(task.defaults))
    digest.update(orjson.dumps(rest, option=orjson.OPT_SORT_KEYS))
    return digest.hexdigest()


def _method_content(method: Method) -> dict[str, object]:
    # how many shuffles there are beside a run's does not matter to it
    content: dict[str, object] = asdict(replace(method, grouper=None))
    content |= {"shuffles": None, "seconds": None}
    if method.grouper is not None:
        content["grouper"] = repr(method.grouper)
    # not there where a method has none: a folder of an earlier bench then has the same runs
    for name in ("likelihood", "alphas", "baseline", "grouper"):
        if not content[name]:
            del content[name]
    if method.likelihood is not None:
        content["likelihood"] = _model_content(method.likelihood)
    return content


def _folder_digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    held = [[path.relative_to(folder).as_posix(), _digest(path.read_bytes())] for path in files]
    return _digest(orjson.dumps(held))


def _model_content(model: Model) -> dict[str, object]:
    manifest = Path(model.name) / MANIFEST
    # a bundle's manifest holds the checksums of all its files
    held = _digest(manifest.read_bytes()) if manifest.is_file() else None
    return {"name": model.name, "options": model.options, "manifest": held}


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """What to run, how, and what to write."""

    quick: bool = False
    report_only: bool = False  # run nothing
    workers: int = 1
    selection: Selection = field(default_factory=Selection)
    figures: bool = True  # needs matplotlib
    format: Format = "jsonl"
    options: dict[str, Any] = field(default_factory=dict)


def command(suite: str, folder: Path, settings: BenchSettings) -> str:
    """The command line that does the same runs, for a shell."""
    return shlex.join(
        ["kbforge", "lab", "bench", suite, *_arguments(settings), "--output", str(folder)]
    )


def _arguments(settings: BenchSettings) -> Iterator[str]:
    chosen = settings.selection
    if settings.quick:
        yield "--quick"
    for option, names in (("--tasks", chosen.tasks), ("--methods", chosen.methods)):
        if names is not None:
            yield from (option, ",".join(names))
    if not chosen.sweeps:
        yield "--no-sweeps"
    if chosen.shuffles is not None:
        yield from ("--shuffles", str(chosen.shuffles))
    if chosen.seconds is not None:
        yield from ("--seconds", repr(chosen.seconds))
    if chosen.seed:
        yield from ("--seed", str(chosen.seed))
    for name, value in settings.options.items():
        yield from ("--set", f"suite.{name}={value}")


def described(suite: str, folder: Path, settings: BenchSettings, budgets: Collection[float]) -> str:
    """Version, plan, options of the suite, time budget and command, as a paragraph."""
    options = ", ".join(f"{name} = {value}" for name, value in settings.options.items())
    least, most = min(budgets, default=0.0), max(budgets, default=0.0)
    budget = f"{most:g}" if least == most else f"{least:g} to {most:g}"
    return (
        f"KBForge {__version__}, the {'quick' if settings.quick else 'full'} plan, "
        f"{f'with {options}' if options else 'the suite as it is'}, at most {budget} seconds a "
        f"run:\n\n    {command(suite, folder, settings)}"
    )
