"""The likelihood `attributes`: learns from unlabelled records.

Every attribute of an entity has a true value; a record's value is a copy of it, a typo, a variant
that shares something with it, or unrelated. The family is Copas and Hilton's hit-miss model (1990)
as Steorts (2015) and Marchant et al. (2021) use it for entity resolution, with records that repeat
each other's variants (`urn`). Attributes are independent given the entity, and a missing value is
ignored:

    L(C) = sum over attributes of L_a(values of C)

and `unread_marginal` for records without any attribute that is read. Agreement on a rare value
counts for more than on a common one, through the base probabilities, and for less if other
attributes predict it (`fitting`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Self

import numpy as np
import orjson

from kbforge.contracts import (
    UNREAD,
    CandidateIndex,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    LearnedState,
    unread_marginal,
)
from kbforge.errors import ModelError, UsageError, quoted
from kbforge.files.io import called, read_small
from kbforge.indexes.selective import Selective
from kbforge.models.bundle import KeptReader, read_bundle, together
from kbforge.texts.kinds import normalised
from kbforge.texts.statements import StatedValues
from kbforge_plugins.likelihoods.attributes.fitting import (
    FittedAttributes,
    fit_unlabelled,
    vocabularies_of,
)
from kbforge_plugins.likelihoods.attributes.urn import (
    Rates,
    UrnClusters,
    rates_from_toml,
    rates_to_toml,
)
from kbforge_plugins.likelihoods.attributes.vocabulary import (
    LEAST_COUNT,
    Encoder,
    Vocabulary,
)

RATES_FILE, VALUES_FILE = "rates.toml", "values.json"
_MOST_RATES_BYTES = 1 << 22
_UNFITTED_ALPHA = 1.0
_CALLED = "likelihood attributes"
_LEAST_ALPHA, _MOST_ALPHA = 1e-300, 1e300


class AttributeModel(ConjugateLikelihood):
    """The likelihood with known rates, of at least the attributes of the vocabularies."""

    def __init__(self, vocabularies: Mapping[str, Vocabulary], rates: Rates) -> None:
        self._encoder = Encoder(vocabularies)
        self._read_as = [(vocabulary, rates[name]) for name, vocabulary in vocabularies.items()]
        vars(self).pop("_scored", None)

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        scored = self._scored
        sets = scored.encode_sets(clusters)
        unread = [sum(x.empty for x in of_one) for of_one in sets]
        out = np.array(
            [unread_marginal(n, n < len(s)) for n, s in zip(unread, sets, strict=True)],
            dtype=np.float64,
        )
        for of_attribute in scored.log_marginals(sets, len(self._read_as)).T:
            out += np.nan_to_num(of_attribute)
        return out

    def live_clusters(self) -> UrnClusters:
        return UrnClusters(self._encoder, self._read_as)

    @cached_property
    def _scored(self) -> UrnClusters:
        """A table that computes L of sets, with the values already encoded."""
        return self.live_clusters()


class Attributes(AttributeModel):
    """Records with several noisy attributes: names, dates, places, codes, numbers.

    Without a trained model it learns from the clustered fragments themselves, without labels.

    Args:
        attributes: the attributes to read; by default all.
        rates: use this rates file in place of the model's, such as an edited copy.

    Raises:
        UsageError: an attribute named twice.
        ModelError: the rates file is not one.

    """

    explains = loads_bundles = alpha_from_file = keeps = True

    def __init__(self, attributes: tuple[str, ...] = (), rates: str | None = None) -> None:
        if len(set(attributes)) < len(attributes):
            raise UsageError("likelihood attributes: an attribute is named twice")
        self._read = attributes
        self._given = _read_rates(rates) if rates is not None else {}
        self._trained = False
        self.default_alpha = _UNFITTED_ALPHA
        self.index: CandidateIndex = Selective(attributes=attributes)
        self._trained_on: dict[str, Vocabulary] = {}
        self._use({}, {})

    def _use(self, vocabularies: dict[str, Vocabulary], rates: Rates) -> None:
        self.vocabularies, self.rates = vocabularies, {**rates, **self._given}
        self._names = tuple(vocabularies)
        super().__init__(vocabularies, self.rates)

    @property
    def learned_all(self) -> bool:
        """Whether it reads all attributes, with rates that are learned from the file."""
        return not (self._read or self._given or self._trained)

    @classmethod
    def trained(cls, fitted: FittedAttributes) -> Self:
        """A model whose rates `fit` does not change."""
        model = cls()
        model.default_alpha = fitted.alpha
        model._keep(fitted.vocabularies, fitted.rates)
        return model

    def _keep(self, vocabularies: dict[str, Vocabulary], rates: Rates) -> None:
        self._use(vocabularies, rates)
        self._trained, self._trained_on = True, vocabularies
        self.index = Selective(attributes=self._names)

    @classmethod
    def from_bundle(
        cls, path: Path, attributes: tuple[str, ...] = (), rates: str | None = None
    ) -> Self:
        """Load a model that `kbforge train-attributes` wrote.

        Args:
            path: the bundle's folder.
            attributes: some of the bundle's attributes; by default all.
            rates: a rates file that replaces the bundle's.

        Raises:
            ModelError: the bundle is damaged or not of this kind, or lacks an attribute.
            UsageError: an attribute named twice.

        """
        bundle = read_bundle(path)
        where = quoted(str(path), 400)
        for name in (RATES_FILE, VALUES_FILE):
            if name not in bundle.files:
                raise ModelError(f"{where} has no {name}: it is not an attribute model")
        read = rates_from_toml(bundle.files[RATES_FILE], f"{where}/{RATES_FILE}")
        counts = _read_values(bundle.files[VALUES_FILE], where)
        for name in sorted(read.keys() ^ counts.keys()):
            lacking = VALUES_FILE if name in read else RATES_FILE
            raise ModelError(f'{where}/{lacking} lacks the attribute "{quoted(name)}"')
        model = cls(attributes, rates)
        for name in attributes:
            if name not in read:
                raise ModelError(f'{where} was not trained on the attribute "{quoted(name)}"')
        for name in model._given:
            if name not in read:
                raise ModelError(f'{where} has no attribute "{quoted(name)}" of the rates file')
        chosen = {**read, **model._given}
        kept = sorted(attributes or read)
        model._keep(
            {name: Vocabulary(chosen[name].kind, counts[name]) for name in kept},
            {name: chosen[name] for name in kept},
        )
        return model

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Without a trained model, learn from the input.

        The index always learns from the input. A trained model counts the values that it was not
        trained on, so they get base probabilities and share features with others.

        Returns: One sentence for the user; None for a trained model that can read the fragments.

        Raises:
            UsageError: the fragments lack a named attribute, or have none at all.

        """
        said = StatedValues.of(fragments)
        if isinstance(self.index, Selective):
            self.index.learn(said)
        if self._trained:
            return self._count_new(said)
        self._require(fragments)
        if self._read:
            fragments = [_only(fragment, self._read) for fragment in fragments]
            said = StatedValues.of(fragments)
        kinds = {name: rates.kind for name, rates in self._given.items()}
        vocabularies = vocabularies_of(said, kinds)
        model, given = AttributeModel, self._given
        fitted = fit_unlabelled(fragments, said, vocabularies, self.index, model, given)
        self.default_alpha = fitted.alpha
        for vocabulary in fitted.vocabularies.values():
            vocabulary.settle()
        self._use(fitted.vocabularies, fitted.rates)
        return (
            f"attributes: rates are learned from {fitted.sample:,} of the "
            f"{len(fragments):,} fragments (kbforge train-attributes makes a model and shows them)"
        )

    def dump(self) -> LearnedState:
        """Vocabularies, rates and alpha, and the index's learned state."""
        rates = {name: self.rates[name] for name in self._names}
        own = LearnedState(
            {
                "trained": self._trained,
                "alpha": self.default_alpha,
                "attributes": list(self._names),
                "rates": rates_to_toml(rates).decode() if rates else "",
            }
        )
        parts = {f"values_{i}": v.dump() for i, v in enumerate(self.vocabularies.values())}
        return together(own, index=self.index.dump(), **parts)

    def load(self, kept: LearnedState) -> None:
        read = KeptReader(kept, _CALLED)
        names = read.fields.texts("attributes")
        parts = [f"values_{i}" for i in range(len(names))]
        fields = read.only("trained", "alpha", "attributes", "rates", "index", *parts)
        if fields.get("trained", bool, "true or false") != self._trained:
            raise read.wrong("trained", f"{self._trained}", f"{not self._trained}")
        alpha, toml = fields.within("alpha", _LEAST_ALPHA, _MOST_ALPHA), fields.get("rates", str)
        rates = rates_from_toml(toml.encode(), f"{_CALLED}: the saved state") if names else {}
        if len(set(names)) < len(names) or rates.keys() != {*names}:
            raise read.wrong("rates", "those of its attributes", ", ".join(rates) or "none")
        vocabularies = {
            name: Vocabulary.load(rates[name].kind, read.part(part), f"{_CALLED}: {part}")
            for name, part in zip(names, parts, strict=True)
        }
        self.index.load(read.part("index"))
        self.default_alpha = alpha
        self._use(vocabularies, rates)

    def _require(self, fragments: Sequence[Fragment]) -> None:
        wanted = {*self._read, *self._given}
        present: set[str] = set()
        for fragment in fragments:
            for attribute, values in fragment.properties.items():
                if attribute not in present and any(map(normalised, values)):
                    present.add(attribute)
            if present and present >= wanted:
                return
        if not present:
            raise UsageError("likelihood attributes: the fragments have no attributes to read")
        for names, whose in ((self._read, ""), (self._given, " of the rates file")):
            for name in names:
                if name not in present:
                    said = f'no fragment has the attribute "{quoted(name)}"{whose}'
                    raise UsageError(f"likelihood attributes: {said}")

    def _count_new(self, said: StatedValues) -> str | None:
        known = self._trained_on
        counts = said.read({name: v.kind for name, v in known.items()}).counts(known)
        vocabularies = dict(known)
        for name, often in counts.items():
            trained = known[name].counts
            new = {value: n for value, n in often.items() if value and value not in trained}
            if new:
                vocabularies[name] = Vocabulary(known[name].kind, {**trained, **new})
        self._use(vocabularies, self.rates)
        if any(map(any, compress(said.values, map(known.__contains__, said.attributes)))):
            return None
        names = quoted(", ".join(known))
        return f"attributes: no fragment has an attribute that the model reads ({names})"

    def contributions(self, fragment: Fragment, cluster: Sequence[Fragment]) -> dict[str, float]:
        """L_a(C + x) - L_a(C) - L_a({x}), in nats, by each attribute a that both have.

        The sum over attributes is L(C + x) - L(C) - L({x}). If one of the two has no readable
        attribute, the fragment's first attribute gets this value.
        """
        scored = self._scored
        x, *others = scored.encode_all((fragment, *cluster))
        if cluster and (x.empty or all(other.empty for other in others)):
            return {next(iter(fragment.properties), "name"): UNREAD}
        sets = [*others, x], others, [x]
        both, held, alone = scored.log_marginals(sets, len(self._read_as))
        stated = ~np.isnan(held + alone) if cluster else np.zeros(len(held), dtype=np.bool_)
        values = both - held - alone
        return {self._names[index]: float(values[index]) for index in np.flatnonzero(stated)}


def _only(fragment: Fragment, attributes: tuple[str, ...]) -> Fragment:
    kept = {name: fragment.properties[name] for name in attributes if name in fragment.properties}
    return Fragment(fragment.id, kept)


def _read_rates(path: str) -> Rates:
    content = read_small(path, "a rates file", _MOST_RATES_BYTES, ModelError)
    return rates_from_toml(content, quoted(called(path), 400))


def _read_values(content: bytes, where: str) -> dict[str, dict[str, float]]:
    """By attribute: value -> how often it occurs."""
    where = f"{where}/{VALUES_FILE}"
    try:
        table = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ModelError(f"{where} is not JSON ({error})") from None
    if not isinstance(table, dict):
        raise ModelError(f"{where}: expected an object of attributes, got {quoted(table)}")
    for attribute, counts in table.items():
        place = f"{where}: {quoted(attribute)}"
        if not isinstance(counts, dict) or not counts:
            raise ModelError(f"{place}: expected an object of values, got {quoted(counts)}")
        for value, count in counts.items():
            if type(count) not in (int, float) or count < LEAST_COUNT:
                said = f"expected a number of at least {LEAST_COUNT}, got {quoted(count)}"
                raise ModelError(f"{place}: {quoted(value)}: {said}")
    return table
