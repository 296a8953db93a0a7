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

A store keeps the names with its model, so what is added later is read by them; they are found again
when it learns again. What is stored is what was stated.

Only the model of pairs reads renamed values, and only of attributes most of whose values are
linked. Graphs, whose edges stand at both ends, are left out: what was joined wrongly would make
its neighbours alike, and these would make it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import Fragment, IntArray
from kbforge.errors import counted
from kbforge.files.columns import statements_of
from kbforge.fit.choices import PreparedRun, RunOptions, default_options
from kbforge.fit.confidence import dump_map, load_map
from kbforge.fit.description import PairModel, Renaming, is_pair_model
from kbforge.fit.prepare import of_graph
from kbforge.kb.relations import AUTO, Names, stated_in, units_of
from kbforge.models.bundle import make_likelihood
from kbforge.numerics import at_numbers

_LEAST_LINKED = 0.5  # of the values of referring attributes
_LEAST_SURE = 0.9  # the probability of a link: its own text names the entity, or several others do


class SecondPass(NamedTuple):
    """What to cluster again."""

    fragments: Sequence[Fragment]  # in their order, with values renamed
    prepared: PreparedRun  # fitted to them, with a note for the user
    renaming: Renaming

    def learned(self, defaults: str | None) -> PreparedRun:
        """The run for what follows, which reads all fragments as the second pass did, and whose
        confidence uses the same model; `defaults` as in `RunOptions`."""
        model, reading = cast(PairModel, self.prepared.models.likelihood), self.prepared.confidence
        model.read_by(self.renaming)
        reading = None if reading is None else load_map(dump_map(reading), model, defaults)
        return replace(self.prepared, confidence=reading)


def second_pass(
    fragments: Sequence[Fragment],
    entities: Callable[[], IntArray],
    prepared: PreparedRun,
    choices: RunOptions,
) -> SecondPass | None:
    """The second pass over the fragments of a file; None if it is not expected to help.

    `entities` returns those of the first grouping, as for `renaming_of`. A likelihood that the user
    names, or that answers or labels taught, is not fitted again.
    """
    spec = prepared.spec
    told = prepared.answers or choices.labels_from or spec.constraints or prepared.options
    named = choices.likelihood is not None or choices.index is not None
    if told or named or not is_pair_model(spec.likelihood) or of_graph(fragments):
        return None
    renaming = renaming_of(fragments, entities, choices.refers)
    if renaming is None:
        return None
    renamed = [renaming.of(fragment) for fragment in fragments]
    options = default_options(prepared.likelihood, choices.defaults, None)
    likelihood = make_likelihood(prepared.likelihood, options)
    likelihood.fit(renamed)
    models = replace(prepared.models, likelihood=likelihood, index=likelihood.index)
    again = models.spec(DirichletProcess(prepared.alpha, spec.exponent), choices)
    n = counted(len(renaming.attributes), "attribute")
    note = f"second pass: the values of {n} compared by the entities that they name"
    notes = (*prepared.notes, note)
    return SecondPass(renamed, replace(prepared, spec=again, models=models, notes=notes), renaming)


def renaming_of(
    fragments: Sequence[Fragment], entities: Callable[[], IntArray], refers: str = AUTO
) -> Renaming | None:
    """The values whose entity mostly has another name; None without any, or if links are rare.

    Args:
        fragments: of a file.
        entities: returns the first fragment of each one's entity, shape [fragments].
        refers: the attributes that refer, as in `Relations.of`.

    """
    stated = statements_of(fragments)
    names = Names(stated, units_of(fragments))
    refer = names.referring(refers)
    if not refer or not names.keys:
        return None
    entity_of = entities()
    told = names.meanings(refer, entity_of, of_fragments=True)
    sure, n_keys = told.probability >= _LEAST_SURE, len(names.keys)
    codes, meant = told.code[sure], told.best[sure]
    attributes = []
    for attribute in refer:
        asking, asked = stated_in(stated, [attribute], names.keys)
        linked = np.isin(asking * n_keys + asked, codes)
        n = np.count_nonzero(stated.attribute == stated.attributes.index(attribute))
        if np.count_nonzero(linked) >= _LEAST_LINKED * n:
            attributes.append(attribute)
    asking, asked = stated_in(stated, attributes, names.keys)
    asking, asked = np.divmod(np.unique(asking * n_keys + asked), n_keys)
    texts = [*names.keys]
    # what each of these fragments' values is read as: the most frequent name of its entity
    main = _most_frequent(texts, entity_of[names.fragment], names.key)
    entity = at_numbers(codes, meant, asking * n_keys + asked, -1)
    read = np.where(entity < 0, asked, at_numbers(*main, entity, -1))
    keys, usual = _most_frequent(texts, asked, read)
    changed = keys != usual
    known = {texts[k]: texts[n] for k, n in zip(keys[changed], usual[changed], strict=True)}
    differs = read != usual[np.searchsorted(keys, asked)]
    others: dict[str, dict[str, str]] = {}
    columns = (column[differs].tolist() for column in (asking, asked, read))
    for number, key, name in zip(*columns, strict=True):
        others.setdefault(fragments[number].id, {})[texts[key]] = texts[name]
    return Renaming(frozenset(attributes), known, others) if known or others else None


def _most_frequent(
    texts: Sequence[str], group: IntArray, key: IntArray
) -> tuple[IntArray, IntArray]:
    """The groups, ascending, and the most frequent name of each; of equally frequent ones the first
    in the alphabet, so that the order of the file does not matter.

    Args:
        texts: of the names, by key.
        group: of each mention of a name, shape [mentions].
        key: of its name, shape [mentions].

    """
    pair, count = np.unique(group * len(texts) + key, return_counts=True)
    group, key = np.divmod(pair, len(texts))
    place = np.empty(len(texts), np.int64)
    place[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    order = np.lexsort((place[key], -count, group))
    first = order[np.flatnonzero(np.diff(group[order], prepend=-1))]
    return group[first], key[first]
