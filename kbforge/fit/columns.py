"""All covariates of a report: what fragments say, and what is heard of pairs and groupings.

What was not heard is NaN, which the trees of the maps know as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from kbforge.contracts import FloatArray
from kbforge.evaluation.reliability import Pairs
from kbforge.fit.confidence import Reported
from kbforge.fit.covariates import (
    OF_ENTITIES,
    Columns,
    entity_columns,
    log_odds,
)
from kbforge.fit.heard import Heard, PairOdds, Whole
from kbforge.fit.judgements import (
    JUDGED_OF_CLAIMS,
    JUDGED_OF_FILES,
    PAIRS_OF_ENTITIES,
    PAIRS_OF_FILES,
    PAIRS_OF_PAIRS,
    judged_of_entities,
    judged_of_file,
    judged_of_pairs,
    odds_of_entities,
    odds_of_file,
    odds_of_pairs,
)
from kbforge.fit.told import told

REPORTED = "reported"
PAIRS = "pairs"
LIKELIHOODS = ("names", "bigram", "attributes", PAIRS)

_WHOLE = (*PAIRS_OF_FILES, *JUDGED_OF_FILES)
ENTITY_FEATURES = (REPORTED, *OF_ENTITIES, *PAIRS_OF_ENTITIES, *JUDGED_OF_CLAIMS, *_WHOLE)
PAIR_FEATURES = (REPORTED, *PAIRS_OF_PAIRS, *JUDGED_OF_CLAIMS)
"""What a file or its names are like misleads on new kinds of data, where it is about pairs."""


class Described:
    """A report with its covariates.

    Args:
        reported: what a clustering says.
        heard: what else is known of the file.

    """

    def __init__(self, reported: Reported, heard: Heard) -> None:
        self._entities, self._heard = reported.entities, heard
        whole = heard.whole
        self._told = told(reported.fragments, None if whole is None else whole.counted)
        predicted = heard.predicted
        self._places = None if predicted is None else predicted.places(reported.fragments)
        self._odds = _odds(reported, heard)

    def entities(self, features: tuple[str, ...]) -> FloatArray:
        """Some columns of the entities, shape [entities, features]."""
        columns = self._of_entities
        return _rows(features, self._entities.probability, columns, self._whole)

    def pairs(self, features: tuple[str, ...], pairs: Pairs) -> FloatArray:
        """Some columns of some pairs, shape [pairs, features]."""
        columns: Columns = {}
        if self._odds is not None:
            columns |= odds_of_pairs(self._odds, pairs)
        if self._heard.predicted is not None and self._places is not None:
            columns |= judged_of_pairs(self._heard.predicted, self._places, pairs)
        return _rows(features, pairs.probability, columns, self._whole)

    @cached_property
    def _of_entities(self) -> Columns:
        columns = entity_columns(self._told, self._entities)
        if self._odds is not None:
            columns |= odds_of_entities(self._odds, self._entities.clusters)
        if self._heard.predicted is not None and self._places is not None:
            columns |= judged_of_entities(self._heard.predicted, self._places, self._entities)
        return columns

    @property
    def whole(self) -> Whole:
        """What holds of the file, all of which is reported on."""
        return Whole(self._told.counted, self._whole)

    @cached_property
    def _whole(self) -> Mapping[str, float]:
        if self._heard.whole is not None:
            return self._heard.whole.columns
        whole: dict[str, float] = {}
        if self._odds is not None:
            whole |= odds_of_file(self._odds, self._entities.clusters)
        if self._heard.predicted is not None:
            whole |= judged_of_file(self._heard.predicted, self._of_entities["votes"])
        return whole


def _odds(reported: Reported, heard: Heard) -> PairOdds | None:
    """What the model of pairs says; where it clusters, it has placed what came to the file."""
    if heard.pairs is None:
        return None
    placed = reported.changed
    if heard.likelihood != PAIRS:
        placed = np.zeros(len(reported.fragments), np.bool_)
    return heard.pairs.pair_odds(reported.fragments, placed)


def _rows(
    features: tuple[str, ...], probability: FloatArray, columns: Columns, whole: Mapping[str, float]
) -> FloatArray:
    rows = np.full((len(probability), len(features)), np.nan)
    for number, name in enumerate(features):
        if name == REPORTED:
            rows[:, number] = log_odds(probability)
        elif name in columns:
            rows[:, number] = columns[name]
        else:
            rows[:, number] = whole.get(name, np.nan)
    return rows
