"""Suite `text`: confusable entities in text, as the paper's REBEL-50 and TweetNERD (section 4.3).

| task | what |
|---|---|
| wd50, dwie50 | two sets of about 50 entities that share names |
| webnlg-names | the names of the 200 entities of WebNLG that have most; nothing but names |

The target is the bigram model of `name` with its prior fitted to the names of the set itself, or
another likelihood that is named. Alpha of the bigram model is what `kbforge calibrate --calibrator
bcubed --low 100 --high 1e9` finds on the train set of each family; webnlg-names, which has none,
takes that of wd50. A black box comes with its own, and the bigram model proposes for it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import ConjugateLikelihood
from kbforge.contracts.suite import Expectation, Method, Model, Plan, Task
from kbforge.errors import UsageError
from kbforge.load import read_fragments
from kbforge.models import default_alpha, make_likelihood
from kbforge_plugins.suites.data import data_folder
from kbforge_plugins.suites.methods import GREEDY, offline, smc, split_smc
from kbforge_plugins.suites.name_variants import name_variants

_NAMES = "webnlg-names"
_LOG_ALPHAS = {"wd50": 9.35, "dwie50": 8.20, _NAMES: 9.35}
_ENTITIES = 200
_DEFAULT = "bigram"
# as the published surrogate for text; the target's own scale is 1
_SURROGATE_SCALE = 25.0
_GREEDY_MAX_EVALS = 100

_SECONDS, _BLACK_BOX_SECONDS = 600.0, 1800.0


class Text:
    """Names of confusable entities, and all names of large ones, from the folder KBFORGE_DATA.

    Args:
        likelihood: the target: a plugin's name or a model folder.
        alpha: concentration for all sets; needed with another conjugate likelihood than the
            default.
        surrogate: what proposes where a method asks for it: a name or a folder.
        sweeps: most sweeps of a sampler, whatever the machine; `none` leaves it to its patience
            and to the time budget.

    """

    def __init__(
        self,
        likelihood: str = _DEFAULT,
        alpha: float | None = None,
        surrogate: str = _DEFAULT,
        sweeps: int | None = None,
    ) -> None:
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
            self._alpha = default_alpha(made) if alpha is None else alpha
        scale = {"scale": _SURROGATE_SCALE} if surrogate == _DEFAULT else {}
        self._surrogate = Model(surrogate, scale)
        self._offline = offline(sweeps)

    def plan(self, quick: bool = False) -> Plan:
        """See `kbforge.contracts.suite`."""
        names = ("wd50",) if quick else tuple(_LOG_ALPHAS)
        shuffles = 1 if quick else None
        offline = tuple(replace(method, shuffles=shuffles) for method in self._offline)
        online = (self._greedy(), self._smc(100), self._split(100))
        sweep = [make(p) for p in (3, 10, 30, 300) for make in (self._smc, self._split)]
        # a black box's table has M = 100 already
        for m in (0, 1, 3, 10, 30, 300 if self._black_box else 100):
            sweep += [replace(method, surrogate=True, max_evals=m) for method in online]
        seconds = _BLACK_BOX_SECONDS if self._black_box else _SECONDS
        return Plan(
            tasks=tuple(self._task(name) for name in names),
            methods=(*online, *offline),
            sweeps=() if quick else tuple(replace(method, shuffles=3) for method in sweep),
            shuffles=2 if quick else 5,
            seconds=5.0 if quick else seconds,
            expectations=tuple(
                Expectation(name, "Split SMC", "log_posterior", no_worse_than="Greedy")
                for name in names
            ),
        )

    def _greedy(self) -> Method:
        limit = _GREEDY_MAX_EVALS if self._black_box else None
        return replace(GREEDY, surrogate=self._black_box, max_evals=limit)

    def _smc(self, particles: int) -> Method:
        return smc(particles, surrogate=self._black_box)

    def _split(self, particles: int) -> Method:
        return split_smc(particles, surrogate=self._black_box)

    def _task(self, name: str) -> Task:
        alpha = math.exp(_LOG_ALPHAS[name]) if self._alpha is None else self._alpha
        return Task(name, _fragments(name), self._likelihood, alpha, self._surrogate)


def _fragments(name: str) -> tuple[Fragment, ...]:
    folder = data_folder("text")
    if name == _NAMES:
        path = folder / "webnlg" / "webnlg_1text_per_entry.jsonl.gz"
        return tuple(name_variants(read_fragments(str(path)), _ENTITIES))
    return tuple(read_fragments(str(folder / "confusable" / f"{name}_dev.jsonl")))
