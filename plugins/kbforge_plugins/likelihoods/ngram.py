"""Character n-gram likelihoods of names (split-SMC paper, appendix D.2.1; Chien 2015).

The characters of a cluster's values follow an n-gram chain whose transition probabilities are the
cluster's own, drawn from a Dirichlet prior around the language's (`ngram_prior`) and integrated
out. So mentions of one entity share n-grams that are rare elsewhere, and

    L(C) = sum over histories h of log DirichletMultinomial(counts of C after h)

of the ordered characters. Each attribute has chains of its own; a fragment without any of the
attributes contributes 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CDLL
from pathlib import Path
from typing import ClassVar, Self

from kbforge.contracts.features import Features
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.kept import Kept
from kbforge.contracts.likelihood import ConjugateLikelihood, FloatArray
from kbforge.errors import ModelError, UsageError, quoted
from kbforge.models.bundle import read_bundle
from kbforge.models.keeping import TakenUp
from kbforge.words import listed
from kbforge_plugins.indexes.features import gram_counts
from kbforge_plugins.models.dirichlet.compiled import CompiledRows
from kbforge_plugins.models.dirichlet.live_counts import LiveRows
from kbforge_plugins.models.dirichlet.rows import RowsOfSets
from kbforge_plugins.models.ngram.prior import COUNTS_FILE, NgramCounts, NgramPrior
from kbforge_plugins.models.ngram.rows import NgramRows

_LARGEST_SCALE = 1e6
_NAMED = 10  # attributes in a message


class _NgramLikelihood(ConjugateLikelihood):
    """What n-gram models of every order share; each documents the options where it is shown."""

    order: ClassVar[int]
    default_scale: ClassVar[float]
    explains = loads_bundles = alpha_from_file = keeps = True

    def __init__(self, attributes: tuple[str, ...] = ("name",), scale: float | None = None) -> None:
        if scale is not None and not 0 < scale <= _LARGEST_SCALE:
            raise UsageError(
                f"{self._called()}: scale must be above 0 and at most {_LARGEST_SCALE:g}, "
                f"got {scale}"
            )
        if not attributes or not all(attributes):
            raise UsageError(f"{self._called()}: name at least one attribute to read")
        self.attributes = tuple(dict.fromkeys(attributes))
        self.scale = self.default_scale if scale is None else scale
        self._trained = False
        self._use(NgramCounts.empty(self.order, self.attributes))

    @classmethod
    def _called(cls) -> str:
        return f"likelihood {cls.__name__.lower()}"

    def _use(self, counts: NgramCounts) -> None:
        self._counts = counts
        self._rows = NgramRows(NgramPrior(counts), self.scale, self.attributes)

    @classmethod
    def trained(
        cls, counts: NgramCounts, attributes: tuple[str, ...], scale: float | None = None
    ) -> Self:
        """A model with counts from elsewhere; `fit` leaves it as it is."""
        model = cls(attributes, scale)
        model._use(counts)
        model._trained = True
        return model

    @classmethod
    def from_bundle(
        cls, path: Path, attributes: tuple[str, ...] | None = None, scale: float | None = None
    ) -> Self:
        """Load what `kbforge train-ngram` wrote.

        Args:
            path: the bundle's folder.
            attributes: some of the bundle's attributes; None takes all of them.
            scale: another scale than the bundle's.

        Raises:
            ModelError: the bundle is damaged, of another order, or lacks an attribute.

        """
        bundle = read_bundle(path)
        where = quoted(str(path), 400)
        if COUNTS_FILE not in bundle.files:
            raise ModelError(f"{where} has no {COUNTS_FILE}: it is not an n-gram model")
        counts = NgramCounts.from_bytes(bundle.files[COUNTS_FILE], where)
        if counts.order != cls.order:
            raise ModelError(
                f"{where} holds n-grams of order {counts.order}, {cls._called()} needs {cls.order}"
            )
        missing = [a for a in attributes or () if a not in counts.by_attribute]
        if missing:
            raise ModelError(
                f'{where} was not trained on the attribute "{quoted(missing[0])}"; '
                f"it has {', '.join(map(quoted, counts.by_attribute))}"
            )
        tuned = bundle.recipe.get("scale")
        if scale is None and tuned is not None:
            if type(tuned) not in (int, float) or not 0 < tuned <= _LARGEST_SCALE:
                raise ModelError(f"{where}: its recipe has the scale {quoted(tuned)}")
            scale = float(tuned)
        return cls.trained(counts, tuple(attributes or counts.by_attribute), scale)

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Without trained counts, count the values of the input.

        Returns:
            One sentence for the user, or None for a trained model.

        Raises:
            UsageError: there is nothing to count, as no fragment has the attributes that are read.

        """
        if self._trained:
            return None
        read = any(f.properties.get(a) for f in fragments for a in self.attributes)
        if fragments and not read:
            there = sorted({name for fragment in fragments for name in fragment.properties})
            raise UsageError(
                f"{self._called()} reads {listed(self.attributes, _NAMED)}, of which no fragment "
                f"has a value; they have {listed(there, _NAMED) or 'no attributes'} "
                "(the option attributes names others)"
            )
        counts = NgramCounts.empty(self.order, self.attributes)
        counts.add(fragments)
        self._use(counts)
        return (
            f"{type(self).__name__.lower()}: no trained counts, so the prior is fitted to the "
            f"{counts.values:,} different values of {listed(self.attributes, _NAMED)} in the input "
            f"(kbforge train-ngram makes a model)"
        )

    def kept(self) -> Kept:
        """The counts of the prior, and the scale, which a trained model brings."""
        return self._counts.kept({"scale": self.scale, "trained": self._trained})

    def take_up(self, kept: Kept) -> None:
        """See `kbforge.contracts.likelihood`."""
        read = TakenUp(kept, self._called())
        fields = read.only("scale", "trained", "attributes")
        scale = fields.within("scale", 0.0, _LARGEST_SCALE)
        if not scale:
            raise read.wrong("scale", "a number above 0", "0")
        if fields.get("trained", bool, "true or false") != self._trained:
            raise read.wrong("trained", f"{self._trained}", f"{not self._trained}")
        counts = NgramCounts.taken_up(self.order, read)
        if not {*self.attributes} <= counts.by_attribute.keys():
            said = listed(tuple(counts.by_attribute), _NAMED)
            raise read.wrong("attributes", listed(self.attributes, _NAMED), said)
        self.scale = scale
        self._use(counts)

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), shape [len(clusters)]: the closed form."""
        return self._rows.log_marginal(clusters)

    def contributions(self, fragment: Fragment, cluster: Sequence[Fragment]) -> dict[str, float]:
        """What the characters of each attribute say for the fragment's joining the cluster, nats.

        Attributes have chains of their own, so the sum is L(C + x) - L(C) - L({x}).
        """
        out = {}
        for attribute in self.attributes:
            if attribute in fragment.properties:
                x, *others = (_only(f, attribute) for f in (fragment, *cluster))
                both, rest, alone = self.log_marginal([[x, *others], others, [x]])
                out[attribute] = float(both - rest - alone)
        return out

    def features(self, fragments: Sequence[Fragment]) -> Features:
        """How often each n-gram occurs."""
        return gram_counts(fragments, self.attributes, self.order)

    def live_clusters(self) -> LiveRows:
        """A new, empty table."""
        return LiveRows(self._rows)

    def set_marginals(self, fragments: Sequence[Fragment]) -> RowsOfSets:
        """These fragments' rows, read once."""
        return self._rows.set_marginals(fragments)

    def compiled_clusters(self, kernel: CDLL) -> CompiledRows:
        """A new, empty table in the compiled kernel."""
        return CompiledRows(kernel, self._rows)


def _only(fragment: Fragment, attribute: str) -> Fragment:
    values = fragment.properties.get(attribute)
    return Fragment(fragment.id, {} if values is None else {attribute: values})


class Bigram(_NgramLikelihood):
    """Character bigrams: each character depends on the one before.

    Args:
        attributes: the attributes whose values are read.
        scale: pseudo-observations of each history, > 0: the larger, the less clusters differ from
            the language. `none` takes the one the model was trained with, else 1.

    Raises:
        UsageError: a scale out of range, or no attributes.

    """

    order: ClassVar[int] = 2
    default_scale: ClassVar[float] = 1.0
    default_alpha = 1000.0


class Trigram(_NgramLikelihood):
    """Character trigrams: each character depends on the two before.

    Args:
        attributes: the attributes whose values are read.
        scale: pseudo-observations of each history, > 0: the larger, the less clusters differ from
            the language. `none` takes the one the model was trained with, else 0.2.

    Raises:
        UsageError: a scale out of range, or no attributes.

    """

    order: ClassVar[int] = 3
    default_scale: ClassVar[float] = 0.2
    default_alpha = 100.0
