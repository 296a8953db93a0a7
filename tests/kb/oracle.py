"""Entities by the definitions, fragment by fragment: the oracle of `kbforge.kb.entities`."""

import math
from collections import Counter, defaultdict

from kbforge.contracts import Alternative, Entity, Value
from kbforge.kb import entities as module
from kbforge.kb.entities import entity_ids, mean_vector, naming
from kbforge.kb.spelling import best_of


def assemble(fragments, posterior, most, calibrated, corpus, made=None):
    """The entities of a posterior."""
    taken = set()
    for number, subproblem in enumerate(posterior.subproblems):
        for cluster in sorted(subproblem.clusters):
            reported, rivals = beliefs(subproblem, cluster)
            if most is None:
                kept = _fitting(fragments, rivals)
            else:
                kept = [rival for rival in rivals if rival[0] > 0.01][:most]
            sure = None if calibrated is None else calibrated[cluster[0]]
            members = [fragments[index] for index in cluster]
            name, properties = described(members, corpus)
            own = next(one for one in entity_ids(members[0].id) if one not in taken)
            taken.add(own)
            yield Entity(
                id=own,
                name=name or members[0].id,
                properties=properties,
                fragments=tuple(member.id for member in members),
                confidence=reported if sure is None else sure,
                subproblem=number,
                alternatives=tuple(
                    Alternative(p, tuple(tuple(fragments[i].id for i in group) for group in groups))
                    for p, groups in kept
                ),
                vector=mean_vector(members),
                reported=None if sure is None else reported,
                made=made,
            )
            made = None


def beliefs(subproblem, cluster):
    """The probability of a cluster, and its alternatives, the most probable first."""
    masses = defaultdict(list)
    for particle in subproblem.particles:
        touching = tuple(c for c in sorted(particle.clusters) if {*c} & {*cluster})
        masses[touching].append(math.exp(particle.log_weight))
    agreed = masses.pop((cluster,), [])
    if not masses:
        return 1.0, []
    found = [(min(math.fsum(mass), 1.0), groups) for groups, mass in masses.items()]
    return min(math.fsum(agreed), 1.0), sorted(found, key=lambda one: (-one[0], one[1]))


def _fitting(fragments, rivals):
    kept, characters = [], 0
    for rival in rivals:
        characters += sum(len(fragments[index].id) for group in rival[1] for index in group)
        if characters > module._MOST_CHARACTERS:
            break
        kept.append(rival)
    return kept


def described(fragments, corpus):
    """The name of fragments, and their values by attribute."""
    stated = defaultdict(lambda: defaultdict(list))
    for fragment in fragments:
        for attribute, values in fragment.properties.items():
            for value in dict.fromkeys(values):
                stated[attribute][value].append(fragment.id)
    properties = {
        attribute: sorted(
            (Value(value, tuple(ids)) for value, ids in stated[attribute].items()),
            key=lambda value: (-len(value.fragments), value.value),
        )
        for attribute in sorted(stated, key=corpus.columns.__getitem__)
    }
    parts = _name_parts(properties, naming(tuple(properties)), corpus.words)
    for attribute, values in properties.items():
        best = parts.get(attribute) or _best_of(values, corpus.words)
        values.sort(key=lambda value: value.value != best)
    return " ".join(parts.values()), {name: tuple(values) for name, values in properties.items()}


def _name_parts(properties, naming, words):
    """The best name, as parts by attribute."""
    if len(naming) < 2:
        return {attribute: _best_of(properties[attribute], words) for attribute in naming}
    of_fragment = defaultdict(dict)
    for attribute, values in properties.items():
        for value in values if attribute in naming else ():
            for fragment in value.fragments:
                of_fragment[fragment].setdefault(attribute, value.value)
    found = Counter(tuple(parts.items()) for parts in of_fragment.values())
    named = {" ".join(text for _, text in parts): parts for parts in sorted(found)}
    joined = Counter()
    for parts, count in found.items():
        joined[" ".join(text for _, text in parts)] += count
    full = {name for name, parts in named.items() if len(parts) > 1}
    return dict(named[best_of(joined, full or None, words)])


def _best_of(values, words):
    return best_of({value.value: len(value.fragments) for value in values}, words=words)
