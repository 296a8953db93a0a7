"""Suites: what `kbforge lab bench` compares, as data.

A suite declares labelled data sets and the model that each is clustered by, the methods, how often
and for how long they run, what must come out, and the published figures to stand beside ours. It
runs nothing itself.

    plan(quick) -> Plan

There are three kinds of comparisons. One is of clusterers: its tasks say by which likelihood and at
which alpha. Another is of whole ways to a grouping: its tasks say nothing, so that each method
groups as `kbforge cluster` does, by a likelihood of its own or by the one that the default takes. A
comparison of this kind is one table over all tasks, and measures how far a grouping's confidence
can be trusted. The third is of groupings by examples: its tasks have labelled examples of other
entities, and its methods are groupers that learn from them.

Laws, tested for every suite by `tests/lab/suites/laws.py`:

1. Same options, same plan; a quick plan runs no longer than the whole one.
2. Every fragment of a task, examples included, has a label and an id of its own.
3. Tasks have different names, so have the methods of the table, and no name is there twice with
   the same P, surrogate and M, which is what rows are told apart by; names have no `|`, and those
   of tasks are as `TASK_NAME` says, because files are called by them.
4. Expectations and published figures are about tasks and methods of the plan.
5. If a method asks for a surrogate, every task has one.
6. Either all tasks have a likelihood and an alpha or none has; only in a plan of the second kind
   have methods likelihoods, alphas and baselines, and are tasks linked.
7. Either all tasks have examples or none has; in a plan of the third kind, and only there, every
   method has a grouper, each of another `repr`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from kbforge.contracts.fragment import Fragment

TASK_NAME = re.compile(r"\w[\w.+-]{0,99}")
"""The whole name of a task: letters, digits and `_ . + -`, not a mark at the beginning."""

Metric: TypeAlias = Literal["log_posterior", "f1", "precision", "recall", "pairwise_f1"]
"""Log posterior in nats, the B-cubed scores (F1 is the mean of the fragments' own), and the F1 of
pairs."""

Baseline: TypeAlias = Literal["all apart", "exact name", "TF-IDF", "ceiling"]
"""A grouping that no model makes (see `kbforge_lab.bench.baselines`)."""

Standing: TypeAlias = Literal["held out", "unseen", "seen"]
"""What the default's models were trained on: all but this family, nothing that this family could be
held out from, or this family too."""


@dataclass(frozen=True, slots=True)
class Model:
    """A likelihood or surrogate: a plugin's name or a model folder, and its options."""

    name: str
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """A labelled data set and what it is clustered by.

    `orders` are the first shuffles, as indices of `fragments`; without any, shuffle 0 is the order
    of the fragments. All others are drawn at random, the same every time.
    """

    name: str
    fragments: tuple[Fragment, ...]  # labelled; only the scoring reads the labels
    likelihood: Model | None = None  # None leaves it to the method
    alpha: float | None = None  # of the Dirichlet process
    surrogate: Model | None = None  # proposes to the methods that ask for one
    orders: tuple[tuple[int, ...], ...] = ()
    family: str = ""  # the kind of data, whose other sets are like this one
    defaults: str | None = None  # a folder of default models to use instead of those that ship
    standing: Standing | None = None  # the default models' standing to the family
    examples: tuple[Fragment, ...] = ()  # labelled, for groupers to learn from
    linked: bool = False  # tables, told apart by source: no entity has two fragments of one


@dataclass(frozen=True, slots=True)
class GroupingSample:
    """What a grouper found."""

    groupings: Sequence[Sequence[Hashable]]  # labels by fragment; several are scored by their mean
    trace: Sequence[float] = ()  # of a chain, the log joint density of each, nats


class Grouper(Protocol):
    """Groups fragments with the help of examples. A frozen dataclass of plain settings, at the top
    of a module: its `repr` is what runs are told apart by, and processes exchange it.
    """

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> GroupingSample:
        """Group the fragments, equally for equal seeds; never read their labels, except to count
        them where an oracle is what is wanted. Runs of a bench have the seeds 0, 1, ...

        Raises:
            KBForgeError: a package is missing, or fragments lack what it reads.

        """
        ...


@dataclass(frozen=True, slots=True)
class Method:
    """A clusterer and one setting of it, or a way to a grouping."""

    name: str  # the same for all settings of one curve
    clusterer: str = ""  # "" for a baseline; without its plugins a method is left out
    options: Mapping[str, object] = field(default_factory=dict)
    particles: int | None = None  # P
    surrogate: bool = False  # False: not even the likelihood's own proposes
    max_evals: int | None = None  # M; None is the default of `kbforge cluster`
    shuffles: int | None = None  # None is the plan's
    seconds: float | None = None  # of the longest run; None is the plan's
    likelihood: Model | None = None  # where the task has none; None is that of `kbforge cluster`
    alphas: tuple[float, ...] = ()  # groups at each, labels choose; () is one alpha, the default's
    baseline: Baseline | None = None  # the grouping, without clustering
    grouper: Grouper | None = None  # groups by examples


@dataclass(frozen=True, slots=True)
class PaperFigures:
    """Means and standard deviations over shuffles that a paper reports; None where it does not.

    `log_posterior` is in nats, None also if it is by another likelihood than ours. `f1` is B-cubed,
    in a plan of groupings by examples of pairs. `minutes` is the mean runtime.
    """

    log_posterior: tuple[float, float] | None
    f1: tuple[float, float | None]
    minutes: float | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """The mean over shuffles of a metric of the table is at least a bound.

    The bound is `at_least` or, if `no_worse_than` names methods, the best of their means less
    `slack`.
    """

    task: str
    method: str
    metric: Metric
    at_least: float = 0.0
    no_worse_than: tuple[str, ...] = ()
    slack: float = 0.0


@dataclass(frozen=True, slots=True)
class SuitePlan:
    """Everything a bench runs: all methods on all tasks.

    `published` is by task and method. `groups` are names of tasks whose means a table over all
    tasks gives, also of tasks that this plan leaves out.
    """

    tasks: tuple[Task, ...]
    methods: tuple[Method, ...]  # of the table, one setting each
    sweeps: tuple[Method, ...] = ()  # further settings, for the curves
    shuffles: int = 5  # orders of the data
    seconds: float = 60.0  # the longest run of one method on one order
    reference: str = "Split SMC"  # the method that runtimes are compared with
    expectations: tuple[Expectation, ...] = ()
    published: Mapping[tuple[str, str], PaperFigures] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # sentences for the user
    race: bool = False  # report when methods reach the level of the slowest

    @property
    def of_examples(self) -> bool:
        """Whether it compares groupings by examples."""
        return any(task.examples for task in self.tasks)

    @property
    def of_clusterers(self) -> bool:
        """Whether it compares clusterers."""
        return any(task.likelihood is not None for task in self.tasks)

    @property
    def of_ways(self) -> bool:
        """Whether it compares whole ways to a grouping."""
        return not self.of_examples and not self.of_clusterers


class Suite(ABC):
    """A comparison. Its options are its constructor's parameters."""

    @abstractmethod
    def plan(self, quick: bool = False) -> SuitePlan:
        """What to run; a quick plan is a small version that shows the same.

        Raises:
            KBForgeError: the data are missing or damaged.

        """
        ...
