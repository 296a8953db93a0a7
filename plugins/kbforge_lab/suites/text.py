"""The suite `text`: confusable entities like the paper's REBEL-50 and TweetNERD (4.3).

wd50 (FewRel, KnowledgeNet and Tweeki, with Wikidata's identifiers) and dwie50 (the news of DWIE)
are sets of about 50 entities that share names. webnlg-names is built as the paper's TweetNERD set
(appendix D.2.1): every different name of an entity of WebNLG is one fragment that has nothing else,
for the 200 entities that have most names; "the US" and "Americans" are one. None is part of
KBForge.

The target is the bigram model of `name`, its prior fitted to the names of the set itself, or
another likelihood that is named. Alpha of the bigram model is what `kbforge calibrate --calibrator
bcubed --between 100,1e9` finds on the train set of each family; webnlg-names and other files
(`data`) take that of wd50. A black box comes with its own, and the bigram model proposes for it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import ConjugateLikelihood
from kbforge.errors import UsageError
from kbforge.files.fragments import read_fragments
from kbforge.models.bundle import make_likelihood
from kbforge_lab.suites.data import GREEDY, data_files, labelled, offline, smc, split_smc
from kbforge_lab.suites.plan import Expectation, Method, Model, Suite, SuitePlan, Task

_NAME = "name"
_SEED = 0


def name_variants(fragments: Iterable[Fragment], entities: int) -> list[Fragment]:
    """The different names of the entities that have most of them, in random order.

    Ties go by the number of mentions, then by label.
    """
    names: dict[str, Counter[str]] = {}
    for fragment in fragments:
        if fragment.label is not None:
            names.setdefault(fragment.label, Counter()).update(fragment.properties.get(_NAME, ()))
    largest = sorted(names, key=lambda label: (-len(names[label]), -names[label].total(), label))
    pairs = [(label, name) for label in largest[:entities] for name in sorted(names[label])]
    return [
        Fragment(f"name-{i}", {_NAME: (pairs[j][1],)}, label=pairs[j][0])
        for i, j in enumerate(np.random.default_rng(_SEED).permutation(len(pairs)).tolist())
    ]


_NAMES = "webnlg-names"
_LOG_ALPHAS = {"wd50": 9.35, "dwie50": 8.20, _NAMES: 9.35}
_FILES = {
    "wd50": "confusable/wd50_dev.jsonl",
    "dwie50": "confusable/dwie50_dev.jsonl",
    _NAMES: "webnlg/webnlg_1text_per_entry.jsonl.gz",
}
_INSTEAD = "any labelled fragments do: --set suite.data=FILE"
_OTHER = "wd50"  # whose alpha other data take
_ENTITIES = 200
_DEFAULT = "bigram"
# as the published surrogate for text; the target's own scale is 1
_SURROGATE_SCALE = 25.0
_GREEDY_MAX_EVALS = 100

_SECONDS, _BLACK_BOX_SECONDS = 600.0, 1800.0


class Text(Suite):
    """Names of confusable entities, and all names of large ones, from the folder KBFORGE_DATA.
    Tasks: wd50, dwie50, webnlg-names. Methods: Greedy, SMC, Split SMC, Gibbs, Metropolis,
    Agglomerative, Agglomerative (batch 100). Quick: wd50 alone, two orders (one of the last four
    methods), 5 seconds a run.

    Args:
        data: file of labelled fragments to use instead: one task with the name of the file. The
            bigram model then has the alpha of wd50.
        likelihood: likelihood to cluster with: a plugin's name or a model folder.
        alpha: concentration for all sets; needed with a conjugate likelihood other than the
            default.
        surrogate: surrogate for the methods that need one: a name or a folder.
        sweeps: maximum sweeps of a sampler, on any machine; `none` leaves this to its patience and
            the time budget.

    """

    def __init__(
        self,
        likelihood: str = _DEFAULT,
        alpha: float | None = None,
        surrogate: str = _DEFAULT,
        sweeps: int | None = None,
        data: str | None = None,
    ) -> None:
        self._data = data
        self._likelihood = Model(likelihood)
        self._alpha = alpha
        self._black_box = False
        if likelihood != _DEFAULT:
            made = make_likelihood(likelihood)
            self._black_box = not isinstance(made, ConjugateLikelihood)
            if alpha is None and not self._black_box:
                raise UsageError(
                    f"suite text: the likelihood {likelihood} needs an alpha of its own, "
                    "--set suite.alpha=NUMBER (kbforge calibrate finds it)"
                )
            self._alpha = made.default_alpha if alpha is None else alpha
        scale = {"scale": _SURROGATE_SCALE} if surrogate == _DEFAULT else {}
        self._surrogate = Model(surrogate, scale)
        self._offline = offline(sweeps)

    def plan(self, quick: bool = False) -> SuitePlan:
        tasks = self._tasks(quick)
        shuffles = 1 if quick else None
        offline = tuple(replace(method, shuffles=shuffles) for method in self._offline)
        online = (self._greedy(), self._smc(100), self._split(100))
        sweep = [make(p) for p in (3, 10, 30, 300) for make in (self._smc, self._split)]
        # a black box's table has M = 100 already
        for m in (0, 1, 3, 10, 30, 300 if self._black_box else 100):
            sweep += [replace(method, surrogate=True, max_evals=m) for method in online]
        seconds = _BLACK_BOX_SECONDS if self._black_box else _SECONDS
        return SuitePlan(
            tasks=tasks,
            methods=(*online, *offline),
            sweeps=() if quick else tuple(replace(method, shuffles=3) for method in sweep),
            shuffles=2 if quick else 5,
            seconds=5.0 if quick else seconds,
            expectations=tuple(
                Expectation(task.name, "Split SMC", "log_posterior", no_worse_than=("Greedy",))
                for task in tasks
            ),
        )

    def _greedy(self) -> Method:
        limit = _GREEDY_MAX_EVALS if self._black_box else None
        return replace(GREEDY, surrogate=self._black_box, max_evals=limit)

    def _smc(self, particles: int) -> Method:
        return smc(particles, surrogate=self._black_box)

    def _split(self, particles: int) -> Method:
        return split_smc(particles, surrogate=self._black_box)

    def _tasks(self, quick: bool) -> tuple[Task, ...]:
        if self._data is not None:
            name = Path(self._data).name.split(".")[0]
            return (self._task(name, labelled("text", self._data), _LOG_ALPHAS[_OTHER]),)
        names = list(_LOG_ALPHAS)[: 1 if quick else None]
        files = data_files("text", [_FILES[name] for name in names], _INSTEAD)
        return tuple(
            self._task(name, _fragments(name, file), _LOG_ALPHAS[name])
            for name, file in zip(names, files, strict=True)
        )

    def _task(self, name: str, fragments: tuple[Fragment, ...], log_alpha: float) -> Task:
        alpha = math.exp(log_alpha) if self._alpha is None else self._alpha
        return Task(name, fragments, self._likelihood, alpha, self._surrogate)


def _fragments(name: str, file: Path) -> tuple[Fragment, ...]:
    fragments = read_fragments(str(file))
    return tuple(name_variants(fragments, _ENTITIES) if name == _NAMES else fragments)
