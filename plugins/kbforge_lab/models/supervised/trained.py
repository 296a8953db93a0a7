"""A trained model of supervised clustering, and its files in a model bundle.

settings.json      features, dimensions, and what hidden entities chose
references.jsonl   the labelled fragments, what is compared of them only; labels are numbers
calibration.toml   alpha
MODEL_CARD.md      what it was trained on, and what hidden entities said
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kbforge.contracts import Fragment
from kbforge.errors import BadRecord, ModelError, quoted
from kbforge.files.records import Record, json_value
from kbforge.fit.alpha import CALIBRATION_FILE
from kbforge.fit.confidence import IN_BUNDLE
from kbforge.models.bundle import Bundle
from kbforge_lab.features.texts import ALL
from kbforge_lab.models.supervised.comparing import Compared

SETTINGS, REFERENCES, CARD = "settings.json", "references.jsonl", "MODEL_CARD.md"
PLUGIN = "supervised"
FORMAT = 1
MODELS = (1, 2, 3)
MOST_DIMENSIONS = 1000
MOST_REFERENCES = 5000
_LEAST, _MOST = 1e-6, 1e6


@dataclass(frozen=True, slots=True)
class Choice:
    """What suits a model of the paper.

    Attributes:
        rate: of separation; of models 1 and 2 without meaning.
        power: of the likelihood, see `kbforge_lab.scdp.sampler.Scdp`.
        score: mean B-cubed F1 of hidden labelled entities.

    """

    rate: float
    power: float
    score: float


@dataclass(frozen=True, slots=True)
class Settings:
    """What training chose.

    Attributes:
        dimensions: of each feature, at most.
        model: the best of the paper's.
        choices: of each of `MODELS`.
        factor: by which an entity's variance is multiplied for clusterers that hold one type.

    """

    dimensions: int
    model: int
    choices: Mapping[int, Choice]
    factor: float


@dataclass(frozen=True, slots=True)
class Trained:
    """A model.

    Attributes:
        compared: features, each of an attribute.
        vectors: whether the fragments' vectors are read, too.
        references: labelled fragments.
        settings: what training chose.

    """

    compared: tuple[Compared, ...]
    vectors: bool
    references: tuple[Fragment, ...]
    settings: Settings

    @property
    def labels(self) -> list[int]:
        """The entities of the references, 0, 1, ... by their first reference."""
        number: dict[str | None, int] = {}
        return [number.setdefault(each.label, len(number)) for each in self.references]


def slimmed(
    fragments: Sequence[Fragment], compared: Sequence[Compared], vectors: bool
) -> tuple[Fragment, ...]:
    """What a model keeps of labelled fragments: no ids, no sources, numbers for labels."""
    attributes = {each.attribute for each in compared}
    number: dict[str | None, str] = {}
    out = []
    for i, fragment in enumerate(fragments):
        properties = {
            name: values
            for name, values in fragment.properties.items()
            if ALL in attributes or name in attributes
        }
        label = number.setdefault(fragment.label, str(len(number)))
        vector = fragment.vector if vectors else None
        out.append(Fragment(f"r{i}", properties, vector, label))
    return tuple(out)


def files_of(trained: Trained) -> dict[str, bytes]:
    """The files of a model, but for the calibration and the card."""
    settings = trained.settings
    told = {
        "format": FORMAT,
        "features": [{"attribute": c.attribute, "feature": c.feature} for c in trained.compared],
        "vectors": trained.vectors,
        "dimensions": settings.dimensions,
        "model": settings.model,
        "factor": settings.factor,
        "choices": {
            str(model): {"rate": c.rate, "power": c.power, "score": c.score}
            for model, c in sorted(settings.choices.items())
        },
    }
    lines = b"".join(orjson.dumps(_line(each)) + b"\n" for each in trained.references)
    return {SETTINGS: orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n", REFERENCES: lines}


def from_bundle(bundle: Bundle, where: str) -> Trained:
    """The model of a verified bundle.

    Args:
        bundle: its files.
        where: what errors call it.

    Raises:
        ModelError: it is not of this kind, or a file is not as it should be.

    """
    bundle.require_of(PLUGIN, where)
    for name in bundle.files:
        if name not in (SETTINGS, REFERENCES, CARD, CALIBRATION_FILE, IN_BUNDLE):
            raise ModelError(f'{where}: the file "{quoted(name)}" does not belong to such a model')
    for name in (SETTINGS, REFERENCES):
        if name not in bundle.files:
            raise ModelError(f"{where} has no {name}: it is not a model of supervised clustering")
    fields = _settings(bundle.files[SETTINGS], f"{where}/{SETTINGS}")
    compared = tuple(
        Compared(each.get("attribute", str), each.get("feature", str))
        for each in (table.only("attribute", "feature") for table in fields.tables("features"))
    )
    vectors = fields.get("vectors", bool, "true or false")
    if not compared and not vectors:
        raise fields.wrong("features", "at least one, or vectors", "none")
    references = _references(bundle.files[REFERENCES], f"{where}/{REFERENCES}", vectors)
    return Trained(compared, vectors, references, _chosen(fields))


def _settings(content: bytes, where: str) -> Record:
    try:
        value = json_value(content, where)
    except orjson.JSONDecodeError as error:
        raise ModelError(f"{where} is not JSON ({error})") from None
    except BadRecord as error:
        raise ModelError(str(error)) from None
    if not isinstance(value, dict):
        raise ModelError(f"{where} is not a JSON object")

    def wrong(field: str, expected: str, got: str) -> ModelError:
        return ModelError(f"{where}: {quoted(field)}: expected {expected}, got {got}")

    fields = Record(value, wrong)
    fields.version(FORMAT)
    known = ("features", "vectors", "dimensions", "model", "factor", "choices")
    return fields.only("format", *known)


def _chosen(fields: Record) -> Settings:
    dimensions, model = fields.count("dimensions"), fields.count("model")
    if dimensions > MOST_DIMENSIONS:
        raise fields.wrong("dimensions", f"at most {MOST_DIMENSIONS}", dimensions)
    if model not in MODELS:
        raise fields.wrong("model", "1, 2 or 3", model)
    table = fields.table("choices").only(*map(str, MODELS))
    choices = {}
    for each in MODELS:
        told = table.table(str(each)).only("rate", "power", "score")
        choices[each] = Choice(
            told.within("rate", _LEAST, _MOST),
            told.within("power", _LEAST, 1),
            told.within("score", 0, 1),
        )
    return Settings(dimensions, model, choices, fields.within("factor", _LEAST, _MOST))


def _line(fragment: Fragment) -> dict[str, Any]:
    # ids are numbers by line
    return {key: value for key, value in fragment.to_json().items() if key != "id"}


def _references(content: bytes, where: str, vectors: bool) -> tuple[Fragment, ...]:
    lines = content.splitlines()
    if not 2 <= len(lines) <= MOST_REFERENCES:
        raise ModelError(
            f"{where}: expected from 2 to {MOST_REFERENCES:,} lines, got {len(lines):,}"
        )
    out = []
    for i, line in enumerate(lines):
        place = f"{where}:{i + 1}"
        try:
            value = json_value(line, place)
            record = {"id": f"r{i}", **value} if isinstance(value, dict) else value
            fragment = _fragment(record, place)
        except orjson.JSONDecodeError as error:
            raise ModelError(f"{place} is not JSON ({error})") from None
        except BadRecord as error:
            raise ModelError(str(error)) from None
        if fragment.label is None or (vectors and fragment.vector is None):
            lacking = "label" if fragment.label is None else "vector"
            raise ModelError(f"{place}: expected a {lacking}, got nothing")
        out.append(fragment)
    if len({fragment.label for fragment in out}) < 2:
        raise ModelError(f"{where}: expected at least two entities, got one")
    return tuple(out)


def _fragment(record: object, place: str) -> Fragment:
    """One reference; it may have nothing that is compared."""
    if isinstance(record, dict) and record.get("properties") == {} and "vector" not in record:
        label = record.get("label")
        if not record.keys() <= {"id", "properties", "label"} or not isinstance(label, str):
            raise BadRecord(place, "properties and a label", quoted(sorted(record)))
        return Fragment(str(record["id"]), {}, None, label)
    return Fragment.from_json(record, place)
