"""Confidence maps as plain data that a store can hold."""

from __future__ import annotations

from kbforge.contracts import Kept
from kbforge.models.doubt.heard import Heard, Predicted
from kbforge.models.doubt.shipped import Doubt, shipped_doubt


def pairs_of(reading):
    return reading.heard.pairs if isinstance(reading, Doubt) else None


def kept_reading(reading):
    h = reading.heard
    p = h.predicted
    if p is None:
        return Kept({"likelihood": h.likelihood})
    return Kept(
        {"likelihood": h.likelihood, "f1": p.f1, "gain": p.gain},
        {"weights": p.weights, "labels": p.labels, "place": p.place},
    )


def reading_from(kept, pairs, defaults):
    v, a = kept.values, kept.arrays
    pred = (
        None
        if "f1" not in v
        else Predicted(v["f1"], v["gain"], a["weights"], a["labels"], a["place"])
    )
    return shipped_doubt(Heard(v["likelihood"], pairs, pred), defaults)
