"""Confidence maps as they are kept with a clustering, and read again.

map         a map of reported probabilities: its TOML
doubt       the maps that ship, or those of a folder of defaults: the likelihood that clustered,
            and what the judge expects of groupings; the trees are those of the version that
            reads, and the model of pairs keeps itself
answered    another map, and the audits that shift it

What holds of the file as a whole is kept by itself (`whole_of`, `with_whole`): it is told from a
report on all of it, and frozen for the reports on parts that follow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kbforge.contracts.kept import Kept
from kbforge.errors import ModelError
from kbforge.files.records import Record
from kbforge.files.toml import parse_toml
from kbforge.fit.audits import Answered, Audit
from kbforge.fit.columns import Described
from kbforge.fit.confidence import (
    ConfidenceMap,
    Reading,
    Reported,
    confidence_toml,
    parse_confidence,
)
from kbforge.fit.heard import Heard, Predicted, ReadsPairs, Whole
from kbforge.fit.shift import Shift
from kbforge.fit.shipped import Doubt, shipped_doubt
from kbforge.fit.told import Counted
from kbforge.models.keeping import TakenUp, together

_CALLED = "confidence map"
_MAP, _DOUBT, _ANSWERED = KINDS = ("map", "doubt", "answered")
_LARGEST_DIGEST = 2**63 - 1


def kept_reading(reading: Reading) -> Kept:
    """A map as plain data.

    Raises:
        ModelError: it is none of this program's.

    """
    if isinstance(reading, ConfidenceMap):
        return Kept({"kind": _MAP, "toml": confidence_toml(reading).decode()})
    if isinstance(reading, Answered):
        audits = [[audit.a, audit.b, audit.same] for audit in reading.audits]
        return together(
            Kept({"kind": _ANSWERED, "audits": audits}), reading=kept_reading(reading.reading)
        )
    if isinstance(reading, Doubt):
        heard = reading.heard
        predicted = None if heard.predicted is None else _kept_predicted(heard.predicted)
        own: dict[str, Any] = {
            "kind": _DOUBT,
            "likelihood": heard.likelihood,
            "pairs": heard.pairs is not None,
            "judged": predicted is not None,
        }
        return together(Kept(own), predicted=predicted)
    raise ModelError(f"{_CALLED}: a {type(reading).__name__} cannot be kept")


def reading_from(
    kept: Kept, pairs: ReadsPairs | None = None, defaults: str | None = None
) -> Reading:
    """The map that was kept.

    Args:
        kept: as of `kept_reading`.
        pairs: the model of pairs that it heard of, if it did; not asked for otherwise.
        defaults: the folder of maps that it was of, if it was not of those that ship.

    Raises:
        ModelError: it is damaged, or no model of pairs was given though it heard one.
        KBForgeError: the maps of the folder cannot be read.

    """
    read = TakenUp(kept, _CALLED)
    kind = read.fields.choice("kind", KINDS)
    if kind == _MAP:
        return _map(read.only("kind", "toml").get("toml", str), read)
    if kind == _ANSWERED:
        read.only("kind", "audits", "reading")
        return Answered(reading_from(read.part("reading"), pairs, defaults), _audits(read))
    judged = read.fields.get("judged", bool, "true or false")
    fields = read.only("kind", "likelihood", "pairs", "judged", *(["predicted"] * judged))
    heard_pairs = fields.get("pairs", bool, "true or false")
    if heard_pairs and pairs is None:
        raise ModelError(f"{_CALLED}: it was made with a model of pairs, and none is given")
    heard = Heard(
        fields.get("likelihood", str),
        pairs if heard_pairs else None,
        _predicted(read.part("predicted")) if judged else None,
    )
    return shipped_doubt(heard, defaults)


def pairs_of(reading: Reading) -> ReadsPairs | None:
    """The model of pairs that a map asks, if it asks one."""
    if isinstance(reading, Answered):
        return pairs_of(reading.reading)
    return reading.heard.pairs if isinstance(reading, Doubt) else None


def reads_whole(reading: Reading) -> bool:
    """Whether what a map says of an entity depends on the file besides the entity's report."""
    return isinstance(reading, Answered | Doubt)


def whole_of(reading: Reading, reported: Reported) -> Kept | None:
    """What a map reads of the file as a whole, to be kept; None if it reads nothing of it.

    Args:
        reading: the map.
        reported: on all of the file.

    """
    if isinstance(reading, Answered):
        before = reading.reading.of_entities(reported)
        shift = reading.shift_of(reported, before).offset
        return together(Kept({"shift": shift}), reading=whole_of(reading.reading, reported))
    if not isinstance(reading, Doubt):
        return None
    whole = Described(reported, reading.heard).whole
    counted = whole.counted
    columns = {name: value for name, value in whole.columns.items() if not np.isnan(value)}
    return Kept(
        {
            "columns": columns,
            "fragments": counted.fragments,
            "names": counted.names,
            "naming": list(counted.naming),
            "others": list(counted.others),
        },
        {"parts": counted.parts, "stating": counted.stating},
    )


def with_whole(reading: Reading, kept: Kept) -> Reading:
    """The map, reading parts of the file of which this was kept.

    Raises:
        ModelError: it is damaged.

    """
    read = TakenUp(kept, f"{_CALLED}: what was kept of the file")
    if isinstance(reading, Answered):
        inner = reading.reading
        if "reading" in kept.values:
            inner = with_whole(inner, read.part("reading"))
        return replace(reading, reading=inner, shift=Shift(read.fields.number("shift")))
    if not isinstance(reading, Doubt):
        return reading
    fields = read.only("columns", "fragments", "names", "naming", "others")
    columns = fields.get("columns", dict)
    for name, value in columns.items():
        if not isinstance(value, float | int):
            raise fields.wrong(f"columns.{name}", "a number", value)
    counted = Counted(
        fields.count("fragments"),
        fields.get("names", int),
        fields.texts("naming"),
        fields.texts("others"),
        read.array("parts", np.int32, least=0),
        read.array("stating", np.int32, least=0),
    )
    if not len(counted.parts) or not len(counted.stating):
        raise fields.wrong("parts", "counts", "none")
    return replace(reading, heard=replace(reading.heard, whole=Whole(counted, columns)))


def _map(toml: str, read: TakenUp) -> ConfidenceMap:
    return parse_confidence(Record(parse_toml(toml.encode(), _CALLED, ModelError), read.wrong))


def _audits(read: TakenUp) -> tuple[Audit, ...]:
    out = []
    for number, audit in enumerate(read.fields.get("audits", list)):
        if not isinstance(audit, list) or list(map(type, audit)) != [str, str, bool]:
            expected = "two ids and whether they are one entity"
            raise read.fields.wrong(f"audits[{number}]", expected, audit)
        out.append(Audit(*audit))
    return tuple(out)


def _kept_predicted(predicted: Predicted) -> Kept:
    return Kept(
        {"f1": predicted.f1, "gain": predicted.gain, "ids": list(predicted.ids)},
        {
            "weights": predicted.weights,
            "labels": predicted.labels.astype(np.int32),
            "stated": predicted.stated,
        },
    )


def _predicted(kept: Kept) -> Predicted:
    read = TakenUp(kept, f"{_CALLED}: what was expected of groupings")
    fields = read.only("f1", "gain", "ids")
    ids = fields.texts("ids")
    n = len(ids)
    weights = read.array("weights", np.float64, least=0.0, most=1.0)
    labels = read.array("labels", np.int32, len(weights), least=0, most=n - 1, width=n)
    stated = read.array("stated", np.int64, n, least=0, most=_LARGEST_DIGEST)
    f1, gain = fields.number("f1"), fields.number("gain")
    return Predicted(f1, gain, weights, labels.astype(np.int64), ids, stated)
