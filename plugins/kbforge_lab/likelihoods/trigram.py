"""The likelihood `trigram`: like `bigram`, with character trigrams."""

from __future__ import annotations

from typing import ClassVar

from kbforge_lm.likelihoods.ngram import NgramLikelihood


class Trigram(NgramLikelihood):
    """Character trigrams: each character depends on the two before.

    Args:
        attributes: the attributes whose values are read.
        scale: pseudo-observations of each history, > 0: a larger scale keeps clusters closer to the
            language. The default is the trained model's, else 0.2.

    Raises:
        UsageError: a scale out of range, or no attributes.

    """

    order: ClassVar[int] = 3
    default_scale: ClassVar[float] = 0.2
    default_alpha = 100.0
