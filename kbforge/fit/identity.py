"""Identity as evidence: neighbours are compared by who they are, not by how they are spelt.

A first grouping says whom the values of referring attributes name (`kbforge.kb.relations`). In a
second pass each of them is read as the name that its entity has most often, so that "EU" and
"European Union" agree:

    first grouping -> links of each fragment's values -> values renamed -> second grouping

Each fragment's links are found by its own text, not by all texts of its entity, because whether
these tell of one entity is the question. Likelihood and alpha stay those that were chosen, because
a choice that changes costs more than identity gains.

Namesakes keep their name: to tell two entities of one name apart in the second pass, too, costs
more where the first pass parted one entity than it gains elsewhere.

Only the model of pairs reads renamed values, and only of attributes most of whose values are
linked. Graphs, whose edges stand at both ends, are left out: what was joined wrongly would make
its neighbours alike, and these would make it alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import Fragment, IntArray, ModelSpec
from kbforge.errors import counted
from kbforge.files.columns import statements_of
from kbforge.fit.choices import PreparedRun, RunOptions, default_options
from kbforge.fit.description import is_pair_model
from kbforge.fit.prepare import of_graph
from kbforge.kb.relations import (
    AUTO,
    Mentions,
    meanings_of,
    names_in,
    referring,
    stated_in,
    units_of,
)
from kbforge.models.bundle import make_likelihood
from kbforge.numerics import at_numbers
from kbforge.texts import normalised

_LEAST_LINKED = 0.5  # of the values of referring attributes
_LEAST_SURE = 0.9  # the probability of a link: its own text names the entity, or several others do


class Renaming(NamedTuple):
    """Other names for values of the attributes that refer."""

    attributes: frozenset[str]
    names: Mapping[int, Mapping[str, str]]  # by fragment and normalised value

    def of(self, number: int, fragment: Fragment) -> Fragment:
        """A fragment with its values renamed."""
        names = self.names.get(number)
        if names is None:
            return fragment
        renamed = {
            attribute: tuple(dict.fromkeys(names.get(normalised(value), value) for value in values))
            for attribute, values in fragment.properties.items()
            if attribute in self.attributes
        }
        return replace(fragment, properties={**fragment.properties, **renamed})


class SecondPass(NamedTuple):
    """What to cluster again."""

    fragments: Sequence[Fragment]  # in their order, with values renamed
    spec: ModelSpec  # fitted to them
    note: str  # for the user


def second_pass(
    fragments: Sequence[Fragment], entities: IntArray, prepared: PreparedRun, choices: RunOptions
) -> SecondPass | None:
    """The second pass over the fragments of a file; None if it is not expected to help.

    `entities` are those of the first grouping: for each fragment the first one of its entity. A
    likelihood that the user names, or that answers or labels taught, is not fitted again.
    """
    told = prepared.answers or choices.labels_from or choices.link or prepared.options
    named = choices.likelihood is not None or choices.index is not None
    if told or named or not is_pair_model(prepared.spec.likelihood) or of_graph(fragments):
        return None
    renaming = renaming_of(fragments, entities, choices.refers)
    if renaming is None:
        return None
    renamed = [renaming.of(*one) for one in enumerate(fragments)]
    options = default_options(prepared.likelihood, choices.defaults, None)
    likelihood = make_likelihood(prepared.likelihood, options)
    likelihood.fit(renamed)
    models = replace(prepared.models, likelihood=likelihood, index=likelihood.index)
    prior = DirichletProcess(prepared.alpha, prepared.spec.exponent)
    n = counted(sum(map(len, renaming.names.values())), "value")
    note = f"second pass: {n} of attributes that refer compared by the entity that they name"
    return SecondPass(renamed, models.spec(prior, choices), note)


def renaming_of(
    fragments: Sequence[Fragment], entities: IntArray, refers: str = AUTO
) -> Renaming | None:
    """The values whose entity mostly has another name; None without any, or if links are rare.

    Args:
        fragments: of a file.
        entities: the first fragment of each one's entity, shape [fragments].
        refers: the attributes that refer, as in `Relations.of`.

    """
    stated = statements_of(fragments)
    refer = [name for name in referring(fragments, refers) if name in stated.attributes]
    if not refer:
        return None
    keys, fragment, named = names_in(stated)
    units, n_keys = units_of(fragments), len(keys)
    asking, asked = stated_in(stated, refer, keys)
    told = meanings_of(
        Mentions(named, entities[fragment], units[fragment]),
        Mentions(asked, asking, units[asking]),
        *(n_keys, entities),
    )
    sure = told.probability >= _LEAST_SURE
    codes, meant = told.code[sure], told.best[sure]
    texts = [*keys]
    main = _main_names(texts, entities[fragment], named)
    attributes, out = set[str](), dict[int, dict[str, str]]()
    for attribute in refer:
        asking, asked = stated_in(stated, [attribute], keys)
        link = at_numbers(codes, meant, asking * n_keys + asked, -1)
        chosen = np.flatnonzero(link >= 0)
        n = np.count_nonzero(stated.attribute == stated.attributes.index(attribute))
        if len(chosen) < _LEAST_LINKED * n:
            continue
        attributes.add(attribute)
        columns = asking[chosen], asked[chosen], link[chosen]
        for number, key, entity in zip(*(column.tolist() for column in columns), strict=True):
            if main[entity] != texts[key]:
                out.setdefault(number, {})[texts[key]] = main[entity]
    return Renaming(frozenset(attributes), out) if out else None


def _main_names(texts: Sequence[str], entities: IntArray, named: IntArray) -> Mapping[int, str]:
    """The most frequent name of each entity; of equally frequent ones the first in the alphabet, so
    that the order of the file does not matter.

    Args:
        texts: of the names, by key.
        entities: of the fragment of each mention of a name, shape [mentions].
        named: the key of each, shape [mentions].

    """
    n_keys = len(texts)
    pair, count = np.unique(entities * n_keys + named, return_counts=True)
    entity, key = np.divmod(pair, n_keys)
    place = np.empty(n_keys, np.int64)
    place[sorted(range(n_keys), key=texts.__getitem__)] = np.arange(n_keys)
    order = np.lexsort((place[key], -count, entity))
    first = order[np.flatnonzero(np.diff(entity[order], prepend=-1))]
    return {e: texts[k] for e, k in zip(entity[first].tolist(), key[first].tolist(), strict=True)}
