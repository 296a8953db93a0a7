"""Facts fused: how probable each value is where an entity's statements contradict each other.

Texts that say the same are pooled (`kbforge.kb.pools`). An attribute of an entity is *in question*
if more than one value is left. One of them is right, or none; nothing is inferred that nobody
stated:

    P(v) ~ exp(w x_v) / q(n_v) * product over the statements of v of r / (1 - r)
    P(none) ~ 1,    q(n) = (1 - m) m^(n - 1)

| symbol | meaning |
|---|---|
| r | the probability that a statement is right, by attribute, and by source where one has many |
| m | the probability that a wrong value is repeated, by attribute |
| n_v | how many fragments state v |
| x_v | how v looks beside the file and the other values: see `FEATURES` |
| w | weights, the same for all files (`WEIGHTS`) |

So sources that agree are trusted more (Dawid and Skene 1979), errors that repeat count less, and a
value that is one slip from a frequent one is a slip. EM learns r and m from the whole knowledge
base, with Beta priors: an attribute takes the rates of the file, and a source those of the
attribute, as far as they have few statements. A store keeps what was learned (`facts_to_keep`).

Records err in the same ways: they have "Rd" for "Road", or leave out a middle name. So the votes
for such values are not independent. A *change* is what two values of a cell have between equal
beginnings and ends, if it is more than a slip. The side that more statements of the file have is
more probable, whichever of them more statements of the entity have.

If fragments often state several values of an attribute at once, each value is right or wrong by
itself, as in LTM (Zhao et al. 2012): of the fragments that state the attribute, a share s states a
right value and a share f a wrong one, besides the fragment that states it first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct, convert, to_builtins
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, Fragment, IntArray, LearnedState
from kbforge.contracts.entity import Probability
from kbforge.files.columns import Statements, sources_of, statements_of
from kbforge.kb.entities import Corpus, EntityColumns
from kbforge.kb.looks import Looks, Pairs
from kbforge.kb.pools import Pools, Said, codes, runs, sizes
from kbforge.kb.spelling import Words
from kbforge.numerics import at_numbers
from kbforge.texts.kinds import Kind

FEATURES = (
    "common",  # n / (n + 5), of the n statements of the value elsewhere in the file
    "rare",  # the number of its words that no other fragment has
    "near",  # log of 1 + the other statements, each as far as it is near (`kbforge.kb.spelling`)
    "usual",  # how much more often the file writes it so, where others write it otherwise
    "shape",  # log of the texts of the attribute with its digits, signs and runs of letters
    "trigram",  # log of how often texts of the attribute have its rarest three characters
    "one",  # 1
)
WEIGHTS = (2.24, -2.01, 3.18, 6.33, 0.33, 0.42, -2.63)
_ROUNDS = 15
_STRENGTH, _MORE_STRENGTH = 30.0, 300.0  # of the priors of r, and of m, s and f, in statements
_RIGHT, _REPEATED = 0.8, 0.1  # prior means
_STATES, _STATES_WRONGLY = 0.5, 0.05
_COMMON = 5  # statements elsewhere with which a value is half as common as can be
_LEAST, _MOST = 0.005, 0.995
_LEAST_RIGHT = 1 / 3  # an attribute with a smaller r, such as a number of rows, is of records
_LEAST_OF_SOURCE = 30  # statements with which a source has a rate of its own
_MOST_COUNTS = 1 << 20  # of looks, that are kept
_DIGITS = 3


class AttributeRates(Struct, frozen=True, forbid_unknown_fields=True):
    """What is learned about an attribute: see the module for the symbols."""

    right: Probability  # r
    repeated: Probability  # m
    several: bool = False  # whether it has several values
    states: Probability = _STATES  # s
    states_wrongly: Probability = _STATES_WRONGLY  # f
    sources: dict[str, Probability] = {}  # r of those with many statements
    kind: Kind | None = None  # of its values in question, if it had any


Rates: TypeAlias = Mapping[str, AttributeRates]
"""By attribute."""


class Questions(NamedTuple):
    """The values in question. A *cell* is an attribute of an entity, or one value of it if the
    attribute has several; *candidates* are the pooled values of a cell; a *voter* is an attribute,
    or one of its sources; a *vote* is what fragments of a voter state."""

    several: NDArray[np.bool_]  # whether an attribute has several values, shape [attributes]
    start: IntArray  # the first candidate of each cell, shape [cells]
    cell: IntArray  # shape [candidates]
    attribute: IntArray  # shape [candidates]
    features: FloatArray  # shape [candidates, FEATURES]
    size: FloatArray  # fragments that state it, shape [candidates]
    stating: FloatArray  # fragments that state the attribute, shape [candidates]
    is_empty: NDArray[np.bool_]  # whether it says nothing, as "n/a", shape [candidates]
    candidate: IntArray  # shape [votes]
    voter: IntArray  # shape [votes]
    votes: FloatArray  # fragments, shape [votes]
    agreed: FloatArray  # statements that others confirm and none contradicts, shape [voters]
    of_voter: IntArray  # its attribute, shape [voters]


class ErrorRates(NamedTuple):
    """The rates r of voters, and m, s and f of attributes."""

    right: FloatArray
    repeated: FloatArray
    states: FloatArray
    states_wrongly: FloatArray


@dataclass(frozen=True, eq=False)
class Facts:
    """How probable the values in question are, and the rates and looks that say so, which can be
    kept and applied to other entities."""

    rates: Rates
    looks: Looks
    _code: IntArray  # of texts in question, ascending
    _confidence: FloatArray

    @classmethod
    def of(
        cls,
        fragments: Sequence[Fragment],
        entities: IntArray,
        corpus: Corpus | None = None,
        together: IntArray | None = None,
        rates: Rates | None = None,
        looks: Looks | None = None,
        weights: Sequence[float] = WEIGHTS,
        pools: Pools | None = None,
    ) -> Facts | None:
        """The facts of a grouping; None if no value is in question.

        Args:
            fragments: of a file.
            entities: the first fragment of the entity of each, shape [fragments].
            corpus: facts about all fragments; None computes them.
            together: the first fragment of the entity that states at the same time as each, shape
                [fragments]; values of other times do not contradict. None if there are no times.
            rates, looks: what was learned before; None learns.
            weights: of the features.
            pools: which values say the same, with the kinds of `rates`; None computes them.

        """
        stated = statements_of(fragments)
        corpus = Corpus.of(stated) if corpus is None else corpus
        pools = Pools.of(stated, entities, kinds=kinds_of(rates or {})) if pools is None else pools
        voters = Voters(stated, fragments, corpus.several, rates, pools.kinds)
        words = Words.of(stated) if corpus.words is None else corpus.words
        together = entities if together is None else together
        questions, looks, code, candidate = questions_of(
            stated, entities, together, pools, voters, words, looks
        )
        if not len(code):
            return None
        prior = questions.features @ np.array(weights)
        errors = learned(questions, prior) if rates is None else voters.given()
        right = posterior_of(questions, prior, errors)[candidate]
        scale = 10**_DIGITS  # rounded down, so that sums stay below 1
        told = voters.named(errors) if rates is None else rates
        attribute = questions.attribute[candidate]
        asked = questions.several[attribute] | (errors.right[attribute] >= _LEAST_RIGHT)
        confidence = (np.floor(right * scale) / scale)[asked]
        group, text = np.divmod(code[asked], sum(map(len, stated.texts)))
        code = entities[group] * sum(map(len, stated.texts)) + text
        order = np.lexsort((-confidence, code))  # of several times that of the most probable one
        code, first = np.unique(code[order], return_index=True)
        return cls(told, looks, code, confidence[order][first])

    def annotate(self, entities: EntityColumns) -> dict[int, str]:
        """Says how probable values in question are: an `Annotator`."""
        cells = np.flatnonzero(np.diff(entities.value_start) > 1)
        values, owner, attribute = entities.values_of(cells)
        code = codes(entities.stated, owner, attribute, entities.value[values])
        found = at_numbers(self._code, self._confidence, code, -1.0)
        known = found >= 0
        told = zip(values[known].tolist(), found[known].tolist(), strict=True)
        return {value: f',"confidence":{probability}' for value, probability in told}


def facts_to_keep(
    fragments: Sequence[Fragment], of: IntArray, corpus: Corpus, together: IntArray, pools: Pools
) -> LearnedState:
    """What a store keeps of a file, of looks the most frequent; arguments as for `Facts.of`."""
    facts = Facts.of(fragments, of, corpus, together, pools=pools)
    rates: Rates = {
        name: AttributeRates(_RIGHT, _REPEATED, name in corpus.several, kind=kind)
        for name, kind in pools.kinds.items()
    }
    rates, looks = (
        (facts.rates, facts.looks) if facts else (rates, Looks.of(statements_of(fragments)))
    )
    most = np.sort(np.argsort(-looks.counts, kind="stable")[:_MOST_COUNTS])
    arrays = {name: column[most] for name, column in looks._asdict().items()}
    return LearnedState({"rates": to_builtins(rates)}, arrays)


def kinds_of(rates: Rates) -> dict[str, Kind]:
    """The kinds of attributes that had values in question, for `Pools.of`."""
    return {name: r.kind for name, r in rates.items() if r.kind is not None}


def kept_facts(kept: LearnedState) -> tuple[Rates, Looks]:
    """The rates and looks that a store keeps, for `Facts.of`."""
    return convert(kept.values["rates"], dict[str, AttributeRates]), Looks(**kept.arrays)


def posterior_of(questions: Questions, prior: FloatArray, rates: ErrorRates) -> FloatArray:
    """The probability that each candidate is right, shape [candidates].

    Args:
        questions: the candidates.
        prior: w x_v, shape [candidates].
        rates: of error.

    """
    q, of = questions, questions.attribute
    right = np.bincount(q.candidate, q.votes * _log_odds(rates.right)[q.voter], len(of))
    wrong = np.log1p(-rates.repeated)[of] + (q.size - 1) * np.log(rates.repeated)[of]
    states, wrongly = rates.states[of], rates.states_wrongly[of]
    again = (q.size - 1) * np.log(states / wrongly)
    silent = (q.stating - q.size) * np.log((1 - states) / (1 - wrongly))
    odds = np.where(q.several[of], right / q.size + again + silent, right - wrong + prior)
    odds[q.is_empty] = -np.inf
    most = np.maximum(np.maximum.reduceat(odds, q.start), 0.0)
    weight = np.exp(odds - most[q.cell])
    return np.asarray(weight / (np.add.reduceat(weight, q.start) + np.exp(-most))[q.cell])


def rates_of(questions: Questions, right: FloatArray) -> ErrorRates:
    """The rates, if these are the probabilities that candidates are right."""
    q, n, n_voters = questions, len(questions.several), len(questions.of_voter)

    def share(part: FloatArray, of: FloatArray, mean: float) -> FloatArray:
        """By attribute, whose prior is the share in the file."""
        parts, whole = (np.bincount(q.attribute, column, n) for column in (part, of))
        in_file = _beta(parts.sum(), whole.sum(), mean, _MORE_STRENGTH)
        return _beta(parts, whole, in_file, _MORE_STRENGTH)

    hits = np.bincount(q.voter, q.votes * right[q.candidate], n_voters) + q.agreed
    votes = np.bincount(q.voter, q.votes, n_voters) + q.agreed
    of_attribute = np.bincount(q.of_voter, hits, n), np.bincount(q.of_voter, votes, n)
    in_file = _beta(of_attribute[0].sum(), of_attribute[1].sum(), _RIGHT, _STRENGTH)
    attribute = _beta(*of_attribute, in_file, _STRENGTH)
    wrong, again, others = 1 - right, q.size - 1, q.stating - 1
    return ErrorRates(
        np.append(attribute, _beta(hits[n:], votes[n:], attribute[q.of_voter[n:]], _STRENGTH)),
        share(wrong * again, wrong * q.size, _REPEATED),
        share(right * again, right * others, _STATES),
        share(wrong * again, wrong * others, _STATES_WRONGLY),
    )


def learned(questions: Questions, prior: FloatArray, rounds: int = _ROUNDS) -> ErrorRates:
    """The rates by EM; `prior` as for `posterior_of`."""
    n, n_voters = len(questions.several), len(questions.of_voter)
    means = (n_voters, _RIGHT), (n, _REPEATED), (n, _STATES), (n, _STATES_WRONGLY)
    rates = ErrorRates(*(np.full(*mean) for mean in means))
    for _ in range(rounds):
        rates = rates_of(questions, posterior_of(questions, prior, rates))
    return rates


def _beta(
    hits: NDArray[Any], of: NDArray[Any], mean: FloatArray | float, strength: float
) -> FloatArray:
    """The means of Beta posteriors; the prior has a mean and the strength of some statements."""
    return np.asarray(np.clip((hits + strength * mean) / (of + strength), _LEAST, _MOST))


def _log_odds(probability: FloatArray) -> FloatArray:
    return np.asarray(np.log(probability / (1 - probability)))


class Voters:
    """The attributes and, numbered after them, their sources with many statements."""

    def __init__(
        self,
        stated: Statements,
        fragments: Sequence[Fragment],
        several: Collection[str],
        rates: Rates | None,
        kinds: Mapping[str, Kind],
    ) -> None:
        self.attributes, self.rates, self.kinds = stated.attributes, rates, kinds
        self._source, self._names = sources_of(fragments)
        known = [(rates or {}).get(name) for name in self.attributes]
        of_several = [
            name in several if r is None else r.several
            for name, r in zip(self.attributes, known, strict=True)
        ]
        self.several = np.array(of_several, np.bool_)
        numbers = {name: number for number, name in enumerate(self._names)}
        of = [(a, numbers.get(x)) for a, r in enumerate(known) if r for x in r.sources]
        own = sorted(a * len(self._names) + number for a, number in of if number is not None)
        self._own = np.array(own, np.int64)  # attribute and source

    def number(self, attribute: IntArray, fragment: IntArray) -> IntArray:
        """The voter of each statement of an attribute by a fragment."""
        source = self._source[fragment]
        key = np.where(source < 0, -1, attribute * len(self._names) + source)
        if self.rates is None:
            own, count = np.unique(key[key >= 0], return_counts=True)
            self._own = own[count >= _LEAST_OF_SOURCE]
        n = len(self.attributes)
        numbers = np.arange(n, n + len(self._own))
        return np.where((at := at_numbers(self._own, numbers, key, -1)) < 0, attribute, at)

    @property
    def attribute(self) -> IntArray:
        """The attribute of each."""
        own = self._own // max(len(self._names), 1)
        return np.append(np.arange(len(self.attributes)), own)

    def given(self) -> ErrorRates:
        """The rates that were learned before; unknown attributes have the mean ones."""
        rates = self.rates or {}
        right = [r.right for r in rates.values()] or [_RIGHT]
        repeated = [r.repeated for r in rates.values()] or [_REPEATED]
        unknown = AttributeRates(float(np.mean(right)), float(np.mean(repeated)))
        of = [rates.get(name, unknown) for name in self.attributes]
        columns = [[getattr(r, name) for r in of] for name in ErrorRates._fields]
        columns[0] += [of[a].sources[x] for a, x in self._named()]
        return ErrorRates(*(np.clip(column, _LEAST, _MOST) for column in columns))

    def named(self, rates: ErrorRates) -> Rates:
        """Rates by name."""
        n = len(self.attributes)
        sources: list[dict[str, float]] = [{} for _ in range(n)]
        for (attribute, source), right in zip(self._named(), rates.right[n:].tolist(), strict=True):
            sources[attribute][source] = right
        right, *columns = (c[:n].tolist() for c in rates)
        kinds, several = map(self.kinds.get, self.attributes), self.several.tolist()
        parts = zip(right, columns[0], several, *columns[1:], sources, kinds, strict=True)
        return {name: AttributeRates(*of) for name, of in zip(self.attributes, parts, strict=True)}

    def _named(self) -> list[tuple[int, str]]:
        """The attribute and the name of each source."""
        pairs = zip(*np.divmod(self._own, max(len(self._names), 1)), strict=True)
        return [(int(attribute), self._names[int(source)]) for attribute, source in pairs]


def questions_of(
    stated: Statements,
    entities: IntArray,
    together: IntArray,
    pools: Pools,
    voters: Voters,
    words: Words,
    looks: Looks | None,
) -> tuple[Questions, Looks, IntArray, IntArray]:
    """The values in question; the looks; and of each text in question the code and the candidate.

    Args:
        stated: what the fragments of a file state.
        entities, together, pools: as for `Facts.of`.
        voters: who states it.
        words, looks: those of the file; without looks these statements are counted.

    """
    said = Said.of(stated, together)
    said = said.where(sizes(said.cell) > 1)
    voter = voters.number(said.attribute, said.fragment)
    first, text = runs(said.code)
    texts = said.where(first)
    keys, of_text = _candidates(stated, entities, texts, pools)
    is_asked = of_text[text] >= 0
    asked, candidate = said.where(is_asked), of_text[text[is_asked]]
    cells, number = np.divmod(keys, max(len(pools.values), 1))
    attribute, (start, cell) = cells % len(stated.attributes), runs(cells)
    once = np.unique(candidate * len(entities) + asked.fragment, return_index=True)[1]
    size = np.bincount(candidate[once], minlength=len(keys))
    n_voters = len(voters.attribute)
    votes, n_votes = np.unique(
        candidate[once] * n_voters + voter[is_asked][once], return_counts=True
    )
    stating = np.unique(cell[candidate] * len(entities) + asked.fragment) // max(len(entities), 1)
    spelt = [pools.values[k] for k in number.tolist()]
    is_first = voters.several[attribute]
    is_first[start] = True
    options, of_option = texts.where(of_text >= 0), of_text[of_text >= 0]
    pairs = Pairs.of(start, spelt, [stated.attributes[a] for a in attribute.tolist()])
    looks = Looks.of(stated, options.code, pairs.counted(size)) if looks is None else looks
    questions = Questions(
        voters.several,
        np.flatnonzero(is_first),
        np.cumsum(is_first) - 1,
        attribute,
        _features(stated, options, of_option, words, looks, pairs, size),
        size.astype(np.float64),
        np.bincount(stating, minlength=len(start))[cell].astype(np.float64),
        np.array([not value for value in spelt], np.bool_),
        *np.divmod(votes, max(n_voters, 1)),
        n_votes.astype(np.float64),
        np.bincount(voter[~is_asked], minlength=n_voters).astype(np.float64),
        voters.attribute,
    )
    return questions, looks, options.code, of_option


def _candidates(
    stated: Statements, entities: IntArray, texts: Said, pools: Pools
) -> tuple[IntArray, IntArray]:
    """The candidates, as numbers of the cell and of what it says, ascending; and the place of that
    of each text, -1 for a text that is not in question."""
    contested = np.flatnonzero(sizes(texts.cell) > 1)
    some, n = texts.where(contested), max(len(pools.values), 1)
    key = np.full(len(texts.cell), -1)
    says = pools.says(stated, entities[some.fragment], some.attribute, some.value)
    key[contested] = some.cell * n + says
    keys = np.unique(key[contested])
    keys = keys[sizes(keys // n) > 1]
    return keys, at_numbers(keys, np.arange(len(keys)), key, -1)


def _features(
    stated: Statements,
    said: Said,
    candidate: IntArray,
    words: Words,
    looks: Looks,
    pairs: Pairs,
    size: IntArray,
) -> FloatArray:
    """How candidates look, of their texts the best; shape [candidates, FEATURES]."""
    best, rare = np.full((4, len(size)), -np.inf), -words.rare_in(said.texts(stated))
    for row, column in zip(
        best, (rare, *looks.of_texts(stated, said.attribute, said.value)), strict=True
    ):
        np.maximum.at(row, candidate, column)
    elsewhere = (best[1] - size).clip(0)
    common, beside = elsewhere / (elsewhere + _COMMON), pairs.features(looks, size)
    return np.column_stack((common, -best[0], *beside, *np.log(best[2:]), np.ones(len(size))))
