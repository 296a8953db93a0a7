"""Suite `text`: confusable entities in text, as the paper's REBEL-50 (section 4.3).

Two sets of about 50 entities that share names, and the bigram model of `name` with its prior fitted
to the names of the set itself. Alpha is what `kbforge calibrate --calibrator bcubed --low 100
--high 1e9` finds on the train set of each family.
"""

from __future__ import annotations

import math
from dataclasses import replace

from kbforge.contracts.suite import Expectation, Method, Model, Plan, Task
from kbforge.errors import UsageError
from kbforge.load import read_fragments
from kbforge_plugins.suites.data import data_folder

_LOG_ALPHAS = {"wd50": 9.35, "dwie50": 8.20}
_DEFAULT = "bigram"
# as the published surrogate for text; the target's own scale is 1
_SURROGATE_SCALE = 25.0

_GREEDY = Method("Greedy", "greedy")


def _smc(particles: int) -> Method:
    return Method("SMC", "smc", particles=particles)


def _split(particles: int) -> Method:
    return Method("Split SMC", "split-smc", particles=particles)


class Text:
    """Names of confusable entities: wd50 and dwie50, from the folder that KBFORGE_DATA names.

    Args:
        likelihood: the target: a plugin's name or a model folder.
        alpha: concentration for both sets; needed with another likelihood than the default.
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
        if alpha is None and likelihood != _DEFAULT:
            raise UsageError(
                f"suite text: the likelihood {likelihood} needs an alpha of its own, "
                "--set suite.alpha=NUMBER (kbforge calibrate finds it)"
            )
        self._likelihood = Model(likelihood)
        self._alpha = alpha
        scale = {"scale": _SURROGATE_SCALE} if surrogate == _DEFAULT else {}
        self._surrogate = Model(surrogate, scale)
        limit = {} if sweeps is None else {"sweeps": sweeps}
        self._offline = (
            Method("Gibbs", "gibbs", limit),
            Method("Metropolis", "metropolis", limit, surrogate=True),
            Method("Agglomerative", "agglomerative"),
            Method("Agglomerative (batch 100)", "agglomerative", {"batch": 100}),
        )

    def plan(self, quick: bool = False) -> Plan:
        """See `kbforge.contracts.suite`."""
        families = ("wd50",) if quick else tuple(_LOG_ALPHAS)
        shuffles = 1 if quick else None
        offline = tuple(replace(method, shuffles=shuffles) for method in self._offline)
        sweep = [make(p) for p in (3, 10, 30, 300) for make in (_smc, _split)]
        for m in (0, 1, 3, 10, 30, 100):
            plain = (_GREEDY, _smc(100), _split(100))
            sweep += [replace(method, surrogate=True, max_evals=m) for method in plain]
        return Plan(
            tasks=tuple(self._task(family) for family in families),
            methods=(_GREEDY, _smc(100), _split(100), *offline),
            sweeps=() if quick else tuple(replace(method, shuffles=3) for method in sweep),
            shuffles=2 if quick else 5,
            seconds=5.0 if quick else 600.0,
            expectations=tuple(
                Expectation(family, "Split SMC", "log_posterior", no_worse_than="Greedy")
                for family in families
            ),
        )

    def _task(self, family: str) -> Task:
        path = data_folder("text") / "confusable" / f"{family}_dev.jsonl"
        alpha = math.exp(_LOG_ALPHAS[family]) if self._alpha is None else self._alpha
        fragments = tuple(read_fragments(str(path)))
        return Task(family, fragments, self._likelihood, alpha, self._surrogate)
