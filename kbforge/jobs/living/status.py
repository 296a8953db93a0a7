"""The status of a store: its size, what is frozen, and the drift."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbforge.contracts import Run
from kbforge.errors import UsageError, quoted
from kbforge.jobs.living.drift import Drift
from kbforge.jobs.living.frozen import seen_of
from kbforge.jobs.living.living import ERASING
from kbforge.store.database import Database
from kbforge.store.store import Store


@dataclass(frozen=True, slots=True)
class Status:
    """A store at a glance.

    Attributes:
        path: of its file.
        megabytes: of the file.
        fragments: that it has.
        entities: likewise.
        subproblems: likewise.
        log10_effective_particles: of all subproblems.
        decisions: in force.
        link: the attribute of which no entity has a value twice, if any.
        likelihood: name, or path of its bundle.
        alpha: before tempering.
        kbforge: the version that learned the models, None if it did not say.
        learned_from: fragments.
        came_since: fragments.
        drift: from 0 to 1, see `kbforge.jobs.living.drift`.
        drift_by_attribute: the attributes that differ most, by name.
        refit_is_worth_it: whether `kbforge refit` is.
        erasing: fragments that are removed, and not erased yet: `kbforge remove --secure` was
            interrupted, and the next command that writes finishes it.
        chosen: sentences that said so when the models learned.
        runs: all of them.

    """

    path: str
    megabytes: float
    fragments: int
    entities: int
    subproblems: int
    log10_effective_particles: float
    decisions: int
    link: str | None
    likelihood: str
    alpha: float
    kbforge: str | None
    learned_from: int
    came_since: int
    drift: float
    drift_by_attribute: dict[str, float]
    refit_is_worth_it: bool
    erasing: int
    chosen: tuple[str, ...]
    runs: tuple[Run, ...]

    def to_json(self) -> dict[str, Any]:
        """All figures by name; of runs all columns."""
        out = {name: getattr(self, name) for name in self.__slots__}
        out["runs"] = [{name: getattr(run, name) for name in run.__slots__} for run in self.runs]
        return out


_MOST_DRIFTING = 5


def status_of(path: str) -> Status:
    """A store at a glance.

    Raises:
        KBForgeError: it cannot be read.
        UsageError: it is empty.

    """
    with Database(path) as database:
        store = Store(database)
        with database.snapshot():
            erasing = store.fact(ERASING, {"fragments": 0})["fragments"]
            if erasing and store.fact("choices") is None:
                raise UsageError(
                    f"{quoted(path, 400)} is empty, but not erased yet; run kbforge remove "
                    "--secure again"
                )
            store.require_made()
            frozen = store.fact("frozen")
            drift = Drift.from_json(store.fact("drift"), seen_of(store))
            figures = sorted(drift.figures.items(), key=lambda item: (-item[1], item[0]))
            totals = store.pages.totals if store.has_session else None
            return Status(
                path=path,
                megabytes=Path(path).stat().st_size / 1e6,
                fragments=store.n_fragments,
                entities=store.n_entities,
                subproblems=totals.n_subproblems if totals else 0,
                log10_effective_particles=totals.log10_effective_particles if totals else 0.0,
                decisions=sum(one.undone is None for one in store.decisions()),
                link=store.fact("choices")["link"],
                likelihood=frozen["likelihood"],
                alpha=frozen["alpha"],
                kbforge=None if (made := store.made) is None else made.kbforge,
                learned_from=drift.fragments,
                came_since=drift.came,
                drift=drift.figure,
                drift_by_attribute={
                    name: figure for name, figure in figures[:_MOST_DRIFTING] if figure > 0
                },
                refit_is_worth_it=drift.worth_it,
                erasing=erasing,
                chosen=tuple(frozen["notes"]),
                runs=tuple(store.runs()),
            )
