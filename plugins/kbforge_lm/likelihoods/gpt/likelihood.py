"""The likelihood `gpt`: the probability of the text of a set of fragments.

    L(C) = log p(canonical text of C), a sum over tokens of log-probabilities renormalised over
    the tokens that the grammar allows (split-SMC paper, appendix D.2.1; Koo et al. 2024)

The end of the text is not scored: a set is scored as a prefix of larger ones. The Dirichlet process
models the size of a cluster, because the sizes of training sets follow a fixed rule.

The text of a set depends on more than what its fragments share, and two fragments without a common
attribute may look like one entity. So a set is read in *parts*: fragments that share an attribute,
directly or through others, are one part. L of k parts is the sum of theirs plus `UNREAD` (k - 1). A
fragment without properties has no text and is a part by itself.

With a weight w, the score is a product of experts (Hinton 2002) with the surrogate:

    L(C) = log p(text of C) + w log p(names of C by the surrogate)

which is no longer the log probability of a text. Bigrams, for which a long name is always rare,
better detect names that two observations share by chance.

A score takes milliseconds, and most joins are hopeless. So the model has its own index, fitted to
the file: a fragment is compared with the clusters that share values or parts of values with it. The
index misses joins of fragments that share nothing; only far too small an alpha would make such
joins.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch

from kbforge.contracts import (
    UNREAD,
    CandidateIndex,
    FloatArray,
    Fragment,
    LearnedState,
    Likelihood,
)
from kbforge.errors import ModelError, UsageError, quoted
from kbforge.fit.alpha import CALIBRATION_FILE, read_calibration
from kbforge.indexes.selective import Selective
from kbforge.models.bundle import Bundle, KeptReader, read_bundle, together
from kbforge_lm.likelihoods.gpt.model import LanguageModel, from_bundle
from kbforge_lm.likelihoods.gpt.scoring import (
    MEBIBYTE,
    BoundedMemory,
    SequenceScorer,
    scores_by_key,
)
from kbforge_lm.likelihoods.ngram import COUNTS_FILE, Bigram, NgramCounts

DEFAULT_ALPHA = 1000.0


@dataclass(eq=False)
class Gpt(Likelihood):
    """A transformer that reads sets of fragments; the default model ships with the package.

    Args:
        device: "cpu" or "cuda".
        precision: "fp32", "bf16", or "auto" for the faster of them on this machine.
        batch_tokens: maximum number of tokens read at once; 0 is the device's default.
        cache_mb: memory for computed scores, in MiB.
        reading_mb: memory for the beginnings of sets, in MiB: a set that begins like an earlier one
            is not read from the start.
        surrogate_weight: weight of the bundle's bigram score; 0 uses the model alone.

    Raises:
        UsageError: an option out of range, or no usable GPU.
        ModelError: the model is damaged.

    """

    takes_device = loads_bundles = alpha_from_file = keeps = True

    device: Literal["cpu", "cuda"] = "cpu"
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    batch_tokens: int = 0
    cache_mb: int = 64
    reading_mb: int = 512
    surrogate_weight: float = 1.0

    def __post_init__(self) -> None:
        self._load(shipped_model())

    @classmethod
    def from_bundle(cls, path: Path, **options: Any) -> Self:
        """Load what `kbforge train-lm` wrote, with the constructor's options.

        Raises:
            ModelError: it is damaged or does not fit.
        """
        model = cls.__new__(cls)
        chosen = inspect.signature(cls).bind(**options)
        chosen.apply_defaults()
        vars(model).update(chosen.arguments)
        model._load(path)
        return model

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Fit the index to the fragments; the model stays as it was trained."""
        return self.index.fit(fragments)

    def dump(self) -> LearnedState:
        """What the index learned; the model and its surrogate are in the bundle."""
        return together(LearnedState(), index=self.index.dump())

    def load(self, kept: LearnedState) -> None:
        read = KeptReader(kept, "likelihood gpt")
        read.only("index")
        self.index.load(read.part("index"))

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        of_clusters = [_parts(cluster) for cluster in clusters]
        parts = [part for of_one in of_clusters for part in of_one]
        texts = [self._text(part) for part in parts]
        known = scores_by_key(self._scores, dict(zip(texts, parts, strict=True)), self._score)
        scores = iter([known[text] for text in texts])
        return np.array(
            [
                sum(islice(scores, len(of_one))) + UNREAD * max(len(of_one) - 1, 0)
                for of_one in of_clusters
            ],
            dtype=np.float64,
        )

    def _score(self, clusters: Mapping[str, Sequence[Fragment]]) -> FloatArray:
        """L(C) of clusters by their texts."""
        # no fragments have no text, and probability one
        tokens = [self._tokenizer.encode(text) if text else [] for text in clusters]
        scores = self._scorer.score(tokens)
        if self.surrogate is None or not self.surrogate_weight:
            return scores
        votes = self.surrogate.log_marginal(list(clusters.values()))
        return scores + self.surrogate_weight * votes

    def _text(self, cluster: Sequence[Fragment]) -> str:
        # a fragment with only a vector has no text
        return self._tokenizer.text([fragment for fragment in cluster if fragment.properties])

    def _load(self, path: Path) -> None:
        if self.device == "cuda" and not torch.cuda.is_available():
            raise UsageError("likelihood gpt: device: there is no usable GPU")
        if min(self.batch_tokens, self.cache_mb, self.reading_mb) < 0:
            raise UsageError(
                "likelihood gpt: batch_tokens, cache_mb and reading_mb cannot be negative"
            )
        if not 0 <= self.surrogate_weight < math.inf:
            raise UsageError("likelihood gpt: surrogate_weight: expected 0 or more")
        where = quoted(str(path), 400)
        bundle = read_bundle(path)
        model: LanguageModel = from_bundle(bundle, where)
        self._tokenizer = model.tokenizer
        sizes = self.batch_tokens or None, self.reading_mb * MEBIBYTE
        self._scorer = SequenceScorer(model, torch.device(self.device), self.precision, *sizes)
        self._scores: BoundedMemory[str, float] = BoundedMemory(self.cache_mb * MEBIBYTE)
        self.surrogate = _surrogate(bundle, where)
        self.index: CandidateIndex = Selective()
        calibrated = CALIBRATION_FILE in bundle.files
        self.default_alpha = (
            read_calibration(str(path / CALIBRATION_FILE)).alpha if calibrated else DEFAULT_ALPHA
        )


def _parts(cluster: Sequence[Fragment]) -> Sequence[Sequence[Fragment]]:
    """The fragments of a set that are linked by shared attributes, together."""
    if cluster and set.intersection(*({*fragment.properties} for fragment in cluster)):
        return [cluster]  # as nearly always
    parts: list[tuple[set[str], list[Fragment]]] = []
    for fragment in cluster:
        attributes, part = {*fragment.properties}, [fragment]
        apart = []
        for others, members in parts:
            if others.isdisjoint(attributes):
                apart.append((others, members))
            else:
                attributes, part = attributes | others, members + part
        parts = [*apart, (attributes, part)]
    return [part for _, part in parts]


def shipped_model() -> Path:
    """The folder of the default model."""
    return Path(str(files("kbforge_lm").joinpath("bundles", "gpt")))


def _surrogate(bundle: Bundle, where: str) -> Bigram | None:
    content = bundle.files.get(COUNTS_FILE)
    if content is None:
        return None
    counts = NgramCounts.from_bytes(content, where)
    if counts.order != Bigram.order:
        raise ModelError(f"{where}: {COUNTS_FILE} holds n-grams of order {counts.order}, not 2")
    return Bigram.trained(counts, tuple(counts.by_attribute))
