"""Measures a store: sizes, confidence, calibration, and scores against gold.

SQLite counts sizes and confidence from the stored confidence. Scores against labels take a pass
over all fragments; they are computed in the background, once for each state of the store.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

from kbforge.errors import UsageError, quoted
from kbforge.evaluation.scores import compare
from kbforge.files.fragments import read_fragments
from kbforge.jobs.decide import answered
from kbforge.kb.report import CONFIDENCES, SIZES, ConfidenceCounter, size_band
from kbforge.store.pages import fragment_from_bytes, numbers_from_bytes
from kbforge.store.store import Store
from kbforge.store.tables import ask, read_rows
from kbforge_serve.answers import Facts
from kbforge_serve.background import Computations, State, state_of
from kbforge_serve.readers import Readers


class Quality:
    """The quality of a store that is served.

    `gold` is a file of labelled fragments (JSON lines); None uses the labels of the store's own
    fragments, if these have any. Raises a KBForgeError if the file cannot be read, or has no label.
    """

    def __init__(
        self, readers: Readers, computations: Computations, gold: str | None = None
    ) -> None:
        self._readers, self._computations = readers, computations
        self._gold = None if gold is None else _labels_of(gold)
        self._file = None if gold is None else Path(gold).name
        self._counted: tuple[State, Facts] | None = None

    def facts(self) -> Facts:
        """The current facts; "gold" has a "state", which is "none", "under way" or "ready".

        While scores are being computed, those of an earlier run are returned, with its number.
        """
        with self._readers.store() as store:
            state = state_of(store)
            if self._counted is None or self._counted[0] != state:
                self._counted = state, _counted(store)
            out = {**self._counted[1]}
        found, current = self._computations.get("gold", state, self._scores)
        said = "ready" if current else "under way"
        if current and found["labelled"] == 0:
            said = "none"
        return out | {"gold": {"state": said, "file": self._file, **(found or {})}}

    def _scores(self, store: Store) -> Facts:
        """The entities against the labels; fragments without a label are left out and counted."""
        rows = store.database.connection
        labels = _labels(store, self._gold)
        last = store.last_run
        out = {
            "run": None if last is None else last.number,
            "labelled": len(labels),
            "unlabelled": store.n_fragments - len(labels),
        }
        if not labels:
            return out
        sure = {first: confidence for first, *_, confidence in read_rows(rows, "confidence")}
        bands = ConfidenceCounter()
        predicted: list[Hashable] = []
        gold: list[Hashable] = []
        for id, _, members in read_rows(rows, "entity"):
            numbers = numbers_from_bytes(members).tolist()
            held = [labels.get(number) for number in numbers]
            known = [label for label in held if label is not None]
            predicted += [id] * len(known)
            gold += known
            # nothing is stated yet of entities that a run has just changed
            bands.add(sure.get(numbers[0]), held)
        shown = [band for band in bands.bands() if band.known]
        return out | {
            "known": sum(band.known for band in shown),
            "right": sum(band.right for band in shown),
            "expected": sum(band.stated_known * band.known for band in shown),
            "bands": [
                {
                    "low": band.low,
                    "high": band.high,
                    "entities": band.known,
                    "stated": band.stated_known,
                    "right": band.right / band.known,
                }
                for band in shown
            ],
            "scores": compare(predicted, gold).to_json(),
        }


def _counted(store: Store) -> Facts:
    """The facts that need no labels."""
    rows = store.database.connection
    highs = (*CONFIDENCES[1:], 1.0)
    mapped = store.fact("frozen")["kept"]["confidence"] is not None
    sizes: dict[int, int] = dict(
        ask(rows, f"SELECT {_band('size', SIZES)}, count(*) FROM confidence GROUP BY 1")
    )
    told = {
        band: (count, total)
        for band, count, total in ask(
            rows,
            f"SELECT {_band('confidence', CONFIDENCES)}, count(*), sum(confidence) "
            "FROM confidence GROUP BY 1",
        )
    }
    return {
        "entities": store.n_entities,
        "fragments": store.n_fragments,
        "stated": sum(total for _, total in told.values()),
        "certain": ask(rows, "SELECT count(*) FROM confidence WHERE reported = 1")[0][0],
        "calibrated": mapped,
        "changing": store.has_stale,
        "sizes": [
            {"size": size_band(band), "entities": sizes.get(band, 0)}
            for band in range(max(sizes, default=-1) + 1)
        ],
        "confidence": [
            {
                "low": low,
                "high": highs[band],
                "entities": (found := told.get(band, (0, 0.0)))[0],
                "stated": found[1] / found[0] if found[0] else None,
            }
            for band, low in enumerate(CONFIDENCES)
        ],
        "answers": asdict(answered(store)),
    }


def _band(column: str, lows: tuple[float, ...]) -> str:
    """The number of the band of a value, in SQL; bands begin at `lows`, which ascend."""
    cases = (
        f"WHEN {column} < {high!r} THEN {band}" for band, (_, high) in enumerate(pairwise(lows))
    )
    return f"CASE {' '.join(cases)} ELSE {len(lows) - 1} END"


def _labels_of(gold: str) -> Mapping[str, str]:
    """The labels of a file by fragment."""
    labels = {one.id: one.label for one in read_fragments(gold) if one.label is not None}
    if not labels:
        raise UsageError(f"--gold: no fragment of {quoted(gold, 400)} has a label")
    return labels


def _labels(store: Store, gold: Mapping[str, str] | None) -> dict[int, str]:
    """The labels of a store's fragments by number: from a file, or their own."""
    out: dict[int, str] = {}
    for number, id, *_, line in read_rows(store.database.connection, "fragment"):
        label = fragment_from_bytes(line).label if gold is None else gold.get(id)
        if label is not None:
            out[number] = label
    return out
