"""The likelihood of models that `kbforge lab train-supervised` makes.

`scdp` samples by all of it (`kbforge_lab.scdp`). Any other clusterer is given L(C) with one scatter
for all entities, so that it takes such a model, too.

*Features* compare attributes: those that are named, or by what an attribute's values are like.

| kind of values | features |
|---|---|
| text | edit, rare-words, initials |
| title | edit, rare-words |
| date | edit, years |
| code, number, category | edit |
| set | rare-words |
| the whole record, if it has several attributes | rare-words |

*Columns*: each feature's distances by classical scaling, side by side. Every different reading is
embedded once, labelled and new ones together, on as many axes as its distances span. The axes are
turned at random and the first are taken: distances stay nearly in proportion (Johnson and
Lindenstrauss 1984), and all columns of a feature are alike, as if it had the one precision that the
paper gives it. (Of the longest axes alone, readings that are all unlike would be in the centre.) A
fragment without a reading is in the centre, where it says little. Of more readings than `LANDMARKS`
only so many are embedded; each other one is placed by its distances to them, in linear time (de
Silva and Tenenbaum 2004, "Sparse multidimensional scaling using landmark points"):

    x_i = (mean over l of D_li^2 - D_i^2) . X_i / (2 |X_i|^2)       for axis i of the landmarks' X

*Scale*: columns are moved and scaled so that the means of labelled entities are centred and have
variance 1, which is what the base density of publications' means expects.

*Scatter*: with n vectors of sum s and sum of squares q, an entity's mean normal(0, 1) before, and w
the variance of a vector given it, the mean integrated out,

    L = -(n log(2 pi w) + log(1 + n / w) + q / w - s^2 / (w^2 + n w)) / 2        summed over columns

That is SCDP with one type, held where the labelled vectors have it. Columns are correlated and
count several times over, so w is their variance times a factor that training chooses.

*Files* of the bundle: settings.json (features, dimensions, and what hidden entities chose),
references.jsonl (the labelled fragments, what is compared of them only; labels are numbers),
calibration.toml (alpha), MODEL_CARD.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from kbforge.contracts import AdditiveLikelihood, FloatArray, Fragment, IntArray
from kbforge.errors import (
    BadRecord,
    LikelihoodError,
    ModelError,
    UsageError,
    counted,
    did_you_mean,
    quoted,
)
from kbforge.evaluation.scores import compare
from kbforge.files.records import Record, json_value
from kbforge.fit.alpha import CALIBRATION_FILE
from kbforge.fit.confidence import IN_BUNDLE
from kbforge.models.bundle import Bundle, read_bundle
from kbforge.texts.kinds import Kind, kind_of, stated
from kbforge_lab.features import ALL, FEATURES, Feature
from kbforge_lab.scdp.references import embedding

MOST_ATTRIBUTES = 8
"""Attributes that are compared by default, those that most fragments have."""
_LEAST_SHARE = 0.1
_BY_KIND: Mapping[Kind, tuple[str, ...]] = {
    "text": ("edit", "rare-words", "initials"),
    "title": ("edit", "rare-words"),
    "date": ("edit", "years"),
    "month first": ("edit", "years"),
    "code": ("edit",),
    "number": ("edit",),
    "category": ("edit",),
    "set": ("rare-words",),
    "email": ("edit",),
    "phone": ("edit",),
    "nothing": (),
}


@dataclass(frozen=True, slots=True, order=True)
class Comparison:
    """An attribute (or `*`, all of them), and the name of the feature that compares it."""

    attribute: str
    feature: str

    def made(self) -> Feature:
        if self.feature not in FEATURES:
            raise UsageError(
                f'there is no feature "{quoted(self.feature)}"'
                f"{did_you_mean(self.feature, FEATURES)}; available: {', '.join(FEATURES)}"
            )
        return FEATURES[self.feature](self.attribute)

    def __str__(self) -> str:
        return f"{self.attribute}={self.feature}"


def usual(fragments: Sequence[Fragment]) -> tuple[Comparison, ...]:
    """What is compared unless someone says otherwise; nothing if there are no properties."""
    counts: dict[str, Counter[str]] = {}
    for fragment in fragments:
        for attribute, values in fragment.properties.items():
            if text := stated(values):
                counts.setdefault(attribute, Counter())[text] += 1
    least = _LEAST_SHARE * len(fragments)
    frequent = [name for name, found in counts.items() if found.total() >= least]
    frequent.sort(key=lambda name: (-counts[name].total(), name))
    chosen = frequent[:MOST_ATTRIBUTES] or sorted(counts)[:1]
    out = [Comparison(name, each) for name in chosen for each in _BY_KIND[kind_of(counts[name])]]
    if len(counts) > 1:
        out.append(Comparison(ALL, "rare-words"))
    return tuple(sorted(out))


def named(texts: Sequence[str], fragments: Sequence[Fragment]) -> tuple[Comparison, ...]:
    """What the texts ATTRIBUTE=FEATURE,FEATURE say."""
    known = {name for fragment in fragments for name in fragment.properties}
    found: list[Comparison] = []
    for text in texts:
        attribute, equals, features = text.rpartition("=")
        names = [name.strip() for name in features.split(",")]
        if not equals or not attribute or not all(names):
            raise UsageError(
                f'--feature: expected ATTRIBUTE=FEATURE or {ALL}=FEATURE, got "{quoted(text)}"'
            )
        if attribute != ALL and attribute not in known:
            listed = ", ".join(quoted(name) for name in sorted(known)[:20]) or "none"
            raise UsageError(
                f'--feature: no fragment has an attribute "{quoted(attribute)}"; attributes: '
                f"{listed}"
            )
        found += [Comparison(attribute, name) for name in names]
    for each in found:
        each.made()
        if found.count(each) > 1:
            raise UsageError(f'--feature: "{quoted(str(each))}" is named twice')
    return tuple(sorted(found))


LANDMARKS = 1000
_ROWS_AT_ONCE = 1000
_LEAST_AXIS = 1e-2
"""Of the variance of the longest axis: on a shorter one landmarks say nothing of other readings."""
_SEED = 20

Readings = tuple[tuple[str | None, ...], tuple[float, ...] | None]
"""All that a model reads of a fragment: a reading a feature, and the vector."""


class Columns:
    """The features of some fragments, embedded together."""

    def __init__(
        self,
        fragments: Sequence[Fragment],
        compared: Sequence[Comparison],
        dimensions: int,
        vectors: bool,
    ) -> None:
        self._features = [each.made() for each in compared]
        self._vectors = vectors
        self._blocks: list[FloatArray] = []
        for feature in self._features:
            feature.fit(fragments)
            self._blocks.append(_block(feature, fragments, dimensions))
        if vectors:
            self._own = _vectors(fragments)
        else:
            self._own = np.zeros((len(fragments), 0))

    def first(self, dimensions: int) -> FloatArray:
        """The vectors, by the first columns of each feature, shape [n, columns]."""
        return np.concatenate([*(b[:, :dimensions] for b in self._blocks), self._own], axis=1)

    def readings(self, fragment: Fragment) -> Readings:
        read = tuple(feature.reading(fragment) for feature in self._features)
        return read, fragment.vector if self._vectors else None


def _block(feature: Feature, fragments: Sequence[Fragment], dimensions: int) -> FloatArray:
    """One feature's columns; those of axes that are not there are left out."""
    read = [feature.reading(fragment) for fragment in fragments]
    different = sorted({reading for reading in read if reading is not None})
    if len(different) < 2:
        return np.zeros((len(fragments), 0))
    points = placed(feature, different, dimensions)
    number = {reading: i for i, reading in enumerate(different)}
    out = np.zeros((len(fragments), points.shape[1]))
    for row, reading in enumerate(read):
        if reading is not None:
            out[row] = points[number[reading]]
    return out


def placed(
    feature: Feature, readings: Sequence[str], dimensions: int, most: int = LANDMARKS
) -> FloatArray:
    """Points of different readings, shape [len(readings), at most `dimensions`].

    Readings that are equally far apart have axes of equal variance, and LAPACK's basis of these
    depends on the processor. Random turns that belong to readings make points nearly the same
    everywhere. Of more than `most` readings some are landmarks for the others.
    """
    landmarks = readings
    if len(readings) > most:
        chosen = np.linspace(0, len(readings) - 1, most).astype(np.int64)
        landmarks = [readings[i] for i in chosen.tolist()]
    distances = feature.distances(landmarks, landmarks)
    axes = points = _spanned(distances)
    if len(readings) > most:
        variance = np.square(axes).sum(axis=0)
        axes = axes[:, variance > _LEAST_AXIS * variance[0]]
        points = _by_landmarks(
            feature, readings, landmarks, axes, np.square(distances).mean(axis=0)
        )
    if axes.shape[1] <= dimensions:
        return points
    turned = np.random.default_rng(_SEED).standard_normal((len(landmarks), dimensions))
    directions = axes / np.sqrt(np.square(axes).sum(axis=0))
    return np.asarray(points @ (directions.T @ turned / np.sqrt(dimensions)))


def _spanned(distances: FloatArray) -> FloatArray:
    """All axes that distances span."""
    points = embedding((distances + distances.T) / 2, len(distances))
    return np.asarray(points[:, np.abs(points).max(axis=0) > 0])


def _by_landmarks(
    feature: Feature,
    readings: Sequence[str],
    landmarks: Sequence[str],
    axes: FloatArray,
    centre: FloatArray,
) -> FloatArray:
    """All readings by their distances to landmarks, given what the mean squares of these are."""
    back = axes / (2 * np.square(axes).sum(axis=0))
    parts = [
        (centre - np.square(feature.distances(readings[at : at + _ROWS_AT_ONCE], landmarks))) @ back
        for at in range(0, len(readings), _ROWS_AT_ONCE)
    ]
    return np.concatenate(parts)


def require_readable(compared: Sequence[Comparison], fragments: Sequence[Fragment]) -> None:
    """Refuse fragments of which nothing can be compared."""
    if not compared and any(fragment.vector is None for fragment in fragments):
        raise UsageError("the fragments have neither properties to compare nor vectors")


def _vectors(fragments: Sequence[Fragment]) -> FloatArray:
    width = len(fragments[0].vector or ())
    for fragment in fragments:
        if fragment.vector is None or len(fragment.vector) != width:
            got = "none" if fragment.vector is None else f"one of {len(fragment.vector)}"
            raise LikelihoodError(
                f'fragment "{quoted(fragment.id)}": expected a vector of {width} numbers, got {got}'
            )
    return np.array([fragment.vector for fragment in fragments], dtype=np.float64)


MOST_COUNTED = 10
"""Fragments that an entity counts for at most, so that no large one says it all."""
_LEAST_SPREAD = 1e-6
_LEAST_SCATTER = 1e-3
"""Of an entity, where that of the means is 1: equal values do not make it certain."""


@dataclass(frozen=True)
class ScaledVectors:
    """Labelled and new vectors on one scale."""

    train: FloatArray  # [n, F]
    labels: IntArray  # entities 0, 1, ..., [n]
    test: FloatArray  # [m, F]
    within: FloatArray  # mean squared deviation of labelled vectors from their entity's mean, [F]


def scaled(train: FloatArray, labels: IntArray, test: FloatArray) -> ScaledVectors:
    """Scale vectors [n, F] and [m, F] by the labelled ones alone."""
    _, labels = np.unique(labels, return_inverse=True)
    means = _means(train, labels)
    spread = means.std(axis=0)
    scale = np.where(spread > _LEAST_SPREAD, spread, 1.0)
    centre = means.mean(axis=0)
    train, test, means = (train - centre) / scale, (test - centre) / scale, (means - centre) / scale
    sizes = np.bincount(labels)
    weights = np.where(sizes > 1, np.minimum(1.0, MOST_COUNTED / sizes), 0.0)[labels]
    squares = (weights[:, None] * np.square(train - means[labels])).sum(axis=0)
    # an entity of k fragments has k - 1 degrees of freedom
    freedom = (weights * (1 - 1 / sizes[labels])).sum()
    within = np.maximum(squares / max(freedom, 1.0), _LEAST_SCATTER)
    return ScaledVectors(train, labels.astype(np.int64), test, within)


def _means(values: FloatArray, labels: IntArray) -> FloatArray:
    sums = np.zeros((int(labels.max()) + 1, values.shape[1]))
    np.add.at(sums, labels, values)
    return np.asarray(sums / np.bincount(labels)[:, None])


class Scatter(AdditiveLikelihood):
    """Of fragments with vectors on the scale of `scaled`.

    Args:
        variance: w, shape [F].

    """

    def __init__(self, variance: FloatArray) -> None:
        self._variance = variance

    def statistics(self, fragment: Fragment) -> FloatArray:
        return self.statistics_of(np.array(fragment.vector))

    def statistics_of(self, x: FloatArray) -> FloatArray:
        """1, the sum over columns of x^2 / w, and x; shapes [F], to [F + 2]."""
        return np.concatenate([[1.0, (np.square(x) / self._variance).sum()], x])

    def log_marginal_of(self, sums: FloatArray) -> FloatArray:
        w = self._variance
        n, squares, total = sums[:, :1], sums[:, 1], sums[:, 2:]
        known = n[:, 0] * np.log(2 * np.pi * w).sum() + np.log1p(n / w).sum(axis=1)
        explained = (np.square(total) / (np.square(w) + n * w)).sum(axis=1)
        return np.asarray(-(known + squares - explained) / 2)


_CUTS = 60


def linked(data: ScaledVectors) -> IntArray:
    """Clusters 0, 1, ... of the new vectors, shape [m].

    Columns weigh by how much less entities scatter in them than their means do. The cut has the
    best B-cubed F1 on the labelled vectors, linked likewise.
    """
    weights = 1 / np.sqrt(data.within)
    height = _best_height(data.train * weights, data.labels)
    return _cut(_tree(data.test * weights), height, len(data.test))


def _tree(points: FloatArray) -> FloatArray | None:
    return None if len(points) < 2 else np.asarray(linkage(pdist(points), "average"))


def _cut(tree: FloatArray | None, height: float, n: int) -> IntArray:
    if tree is None:
        return np.zeros(n, dtype=np.int64)
    found = fcluster(tree, height, "distance")
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def _best_height(points: FloatArray, labels: IntArray) -> float:
    tree = _tree(points)
    if tree is None:
        return 0.0
    heights = np.unique(tree[:, 2])
    # between the joins, not at them: new vectors are joined at other heights
    middles = (heights[:-1] + heights[1:]) / 2 if len(heights) > 1 else heights
    tried = np.unique(middles[np.linspace(0, len(middles) - 1, _CUTS).astype(np.int64)])
    gold = labels.tolist()
    scores = [
        compare(_cut(tree, height, len(gold)).tolist(), gold).bcubed_f1_item_mean
        for height in tried.tolist()
    ]
    return float(tried[int(np.argmax(scores))])


SETTINGS, REFERENCES, CARD = "settings.json", "references.jsonl", "MODEL_CARD.md"
PLUGIN = "supervised"
FORMAT = 1
MODELS = (1, 2, 3)
MOST_DIMENSIONS = 1000
MOST_REFERENCES = 5000
_LEAST, _MOST = 1e-6, 1e6


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """What suits a model of the paper."""

    rate: float  # of separation, in model 3 alone
    power: float  # of the likelihood, see `kbforge_lab.scdp.sampler.Scdp`
    score: float


@dataclass(frozen=True, slots=True)
class Settings:
    """What training chose."""

    dimensions: int
    model: int
    choices: Mapping[int, ModelChoice]
    factor: float  # of an entity's variance, for clusterers that hold one type


@dataclass(frozen=True, slots=True)
class SupervisedModel:
    """A model."""

    compared: tuple[Comparison, ...]
    vectors: bool  # whether the fragments' vectors are read, too
    references: tuple[Fragment, ...]
    settings: Settings

    @property
    def labels(self) -> list[int]:
        """The entities of the references, 0, 1, ... by their first reference."""
        number: dict[str | None, int] = {}
        return [number.setdefault(each.label, len(number)) for each in self.references]


def slimmed(
    fragments: Sequence[Fragment], compared: Sequence[Comparison], vectors: bool
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


def files_of(trained: SupervisedModel) -> dict[str, bytes]:
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


def from_bundle(bundle: Bundle, where: str) -> SupervisedModel:
    """The model of a verified bundle."""
    bundle.require_of(PLUGIN, where)
    for name in bundle.files:
        if name not in (SETTINGS, REFERENCES, CARD, CALIBRATION_FILE, IN_BUNDLE):
            raise ModelError(f'{where}: the file "{quoted(name)}" does not belong to such a model')
    for name in (SETTINGS, REFERENCES):
        if name not in bundle.files:
            raise ModelError(f"{where} has no {name}: it is not a model of supervised clustering")
    fields = _settings(bundle.files[SETTINGS], f"{where}/{SETTINGS}")
    compared = tuple(
        Comparison(each.get("attribute", str), each.get("feature", str))
        for each in (table.only("attribute", "feature") for table in fields.tables("features"))
    )
    vectors = fields.get("vectors", bool, "true or false")
    if not compared and not vectors:
        raise fields.wrong("features", "at least one, or vectors", "none")
    references = _references(bundle.files[REFERENCES], f"{where}/{REFERENCES}", vectors)
    return SupervisedModel(compared, vectors, references, _chosen(fields))


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
        choices[each] = ModelChoice(
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


MOST_FRAGMENTS = 5000
"""That can be clustered at once: all pairs of them are looked at."""


class Supervised(AdditiveLikelihood):
    """What labelled fragments teach: which differences matter within an entity.

    A model is named by its folder, --likelihood MODEL, which kbforge lab train-supervised makes.
    """

    loads_bundles = True

    def __init__(self, model: str | None = None) -> None:
        """Take the options.

        Args:
            model: model folder; the same as --likelihood FOLDER.

        """
        if model is None:
            raise UsageError(
                "likelihood supervised needs a trained model: kbforge lab train-supervised makes "
                "one, and --likelihood FOLDER names it"
            )
        self._take(from_bundle(read_bundle(Path(model)), quoted(model, 400)))

    @classmethod
    def from_bundle(cls, path: Path, model: str | None = None) -> Self:
        """Load what `kbforge lab train-supervised` wrote."""
        if model is not None:
            raise UsageError("--likelihood FOLDER and --set likelihood.model name two models")
        return cls(str(path))

    @classmethod
    def of(cls, trained: SupervisedModel) -> Self:
        made = cls.__new__(cls)
        made._take(trained)
        return made

    def _take(self, trained: SupervisedModel) -> None:
        self._trained = trained
        self.default_alpha = 1.0
        self._row: dict[Readings, int] = {}
        self._columns: Columns | None = None
        self._data: ScaledVectors | None = None
        self._scatter = Scatter(np.ones(1))

    @property
    def settings(self) -> Settings:
        return self._trained.settings

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Embed the fragments, together with the labelled ones."""
        trained = self._trained
        if len(fragments) > MOST_FRAGMENTS:
            raise UsageError(
                f"a model of supervised clustering compares all pairs: expected at most "
                f"{MOST_FRAGMENTS:,} fragments, got {len(fragments):,}; kbforge train-attributes "
                "--labels makes a model for more"
            )
        n = len(trained.references)
        dimensions = trained.settings.dimensions
        everything = (*trained.references, *fragments)
        columns = Columns(everything, trained.compared, dimensions, trained.vectors)
        readings = [columns.readings(fragment) for fragment in fragments]
        if not any(vector or any(read) for read, vector in readings):
            listed = ", ".join(sorted({quoted(c.attribute) for c in trained.compared}))
            raise UsageError(f"no fragment has an attribute that the model compares ({listed})")
        values = columns.first(dimensions)
        self._columns = columns
        self._data = scaled(values[:n], np.array(trained.labels), values[n:])
        self._row = {reading: row for row, reading in enumerate(readings)}
        self._scatter = Scatter(self._data.within * trained.settings.factor)
        entities, new = len({*trained.labels}), counted(len(fragments), "fragment")
        return (
            f"supervised: {new} embedded beside {n:,} labelled ones of {entities:,} entities, "
            f"{values.shape[1]} columns of {counted(len(trained.compared), 'feature')}"
        )

    def vectors(self, fragments: Sequence[Fragment]) -> ScaledVectors:
        """Labelled vectors and those of the fragments, on one scale."""
        rows = [self._row_of(fragment) for fragment in fragments]
        data = self._fitted(fragments[0])
        return ScaledVectors(data.train, data.labels, data.test[rows], data.within)

    def statistics(self, fragment: Fragment) -> FloatArray:
        row = self._row_of(fragment)
        return self._scatter.statistics_of(self._fitted(fragment).test[row])

    def log_marginal_of(self, sums: FloatArray) -> FloatArray:
        return self._scatter.log_marginal_of(sums)

    def _row_of(self, fragment: Fragment) -> int:
        row = None if self._columns is None else self._row.get(self._columns.readings(fragment))
        if row is None:
            raise self._unknown(fragment)
        return row

    def _fitted(self, fragment: Fragment) -> ScaledVectors:
        if self._data is None:
            raise self._unknown(fragment)
        return self._data

    @staticmethod
    def _unknown(fragment: Fragment) -> LikelihoodError:
        return LikelihoodError(
            f'expected a fragment that the model was fitted to, got "{quoted(fragment.id)}"; '
            "all fragments are embedded together, so cluster them in one run"
        )
