"""Identity as evidence: what is renamed, and when a file is clustered a second time."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from kbforge.contracts import Fragment, Interrupted, Progress
from kbforge.fit.choices import RunOptions
from kbforge.fit.identity import renaming_of
from kbforge.jobs.cluster import cluster

FIRST = ["Anna", "Boris", "Clara", "David", "Emil", "Frida", "Greta", "Hugo", "Ilse", "Jonas"]
LAST = ["Abel", "Bauer", "Conrad", "Dietz", "Engel", "Fuchs", "Graf", "Haas"]
PLACES = ["Lublin", "Krakow", "Gdansk", "Poznan", "Torun", "Opole"]


def world(n: int = 80) -> list[Fragment]:
    """Texts that name a person and the employer, either of them in one of two ways."""
    random, out = Random(3), list[Fragment]()
    people = [(a, b, random.choice(PLACES)) for a in FIRST for b in random.sample(LAST, 3)]
    for text in range(n):
        first, last, place = random.choice(people)
        person = random.choice([f"{first} {last}", f"{first[0]}. {last}"])
        employer = random.choice([f"University of {place}", f"{place} University"])
        out.append(one(f"p{text}", f"text {text}", person, employer=employer))
        out.append(one(f"o{text}", f"text {text}", employer, city=place))
    return out


def one(id: str, text: str, name: str, **said: str) -> Fragment:
    properties = {"name": (name,), **{attribute: (value,) for attribute, value in said.items()}}
    return Fragment(id, properties, source=text)


UNION, IN_OHIO, IN_OREGON = "Union", "Ohio", "Oregon"
MENTIONS = [
    (one("u1", "t1", "European Union"), UNION),
    (one("a1", "t1", "Ann", member="European Union", home="Springfield"), "Ann"),
    (one("s1", "t1", "Springfield"), IN_OHIO),
    (one("u2", "t2", "EU"), UNION),
    (one("a2", "t2", "Ann", member="EU", home="Springfield", motto="EU"), "Ann"),
    (one("s2", "t2", "Springfield"), IN_OREGON),
    (one("u3", "t3", "European Union"), UNION),
    (one("b3", "t3", "Bea", member="European Union", home="Springfield"), "Bea"),
    (one("s3", "t3", "Springfield"), IN_OHIO),
]


def renamed(
    mentions: list[tuple[Fragment, str]], refers: str = "member,home"
) -> dict[str, Fragment]:
    """The fragments by id, as the second pass reads them."""
    firsts: dict[str, int] = {}
    entities = np.array([firsts.setdefault(who, n) for n, (_, who) in enumerate(mentions)])
    fragments = [fragment for fragment, _ in mentions]
    found = renaming_of(fragments, lambda: entities, refers)
    if found is None:
        return {}
    return {x.id: found.of(x) for x in fragments}


def test_aliases_of_a_neighbour_agree() -> None:
    found = renamed(MENTIONS)
    assert found["a1"].properties == MENTIONS[1][0].properties
    assert found["a2"].properties["member"] == ("european union",)
    assert found["a2"].properties["home"] == found["b3"].properties["home"] == ("Springfield",)
    assert found["a2"].properties["motto"] == ("EU",)  # it does not refer
    assert [found[x.id].properties["name"] for x, _ in MENTIONS] == [x.names for x, _ in MENTIONS]


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_file_does_not_matter(seed: int) -> None:
    shuffled = Random(seed).sample(MENTIONS, len(MENTIONS))
    assert renamed(shuffled) == renamed(MENTIONS)


def test_a_value_that_is_no_entity_of_the_file_keeps_its_spelling() -> None:
    alone = [(one("x", "t9", "Cem", member="Union of Crafts", home="Springfield"), "Cem")]
    assert renamed(MENTIONS + alone)["x"] == alone[0][0]


def test_an_attribute_is_left_out_unless_most_of_its_values_are_linked() -> None:
    others = [(one(f"o{n}", f"o{n}", f"O{n}", member=f"Club {n}"), f"O{n}") for n in range(4)]
    assert renamed(MENTIONS + others) == {}
    assert renamed(MENTIONS + others[:1])["a2"].properties["member"] == ("european union",)


def test_nothing_is_renamed_where_nothing_refers() -> None:
    assert renamed(MENTIONS, "none") == {}
    assert renamed([(x, who) for x, who in MENTIONS if len(x.properties) == 1], "auto") == {}


def test_a_second_pass_compares_neighbours_by_identity() -> None:
    fragments = world()
    first, second = (cluster(fragments, RunOptions(refers=refers)) for refers in ("none", "auto"))
    assert first.likelihood == second.likelihood == "pairs"
    assert first.alpha == second.alpha
    assert first.posterior.log_posterior != second.posterior.log_posterior
    assert any(note.startswith("second pass: ") for note in second.notes)
    assert not any(note.startswith("second pass: ") for note in first.notes)
    assert second.fragments == fragments  # values are written as they were stated
    assert sorted(f for e in second.entities for f in e.fragments) == sorted(
        x.id for x in fragments
    )
    again = cluster(list(reversed(fragments)), RunOptions())
    assert {frozenset(e.fragments) for e in again.entities} == {
        frozenset(e.fragments) for e in second.entities
    }


def test_a_named_likelihood_has_one_pass() -> None:
    found = cluster(world(), RunOptions(likelihood="pairs"))
    assert not any(note.startswith("second pass: ") for note in found.notes)


def test_graphs_have_one_pass() -> None:
    fragments = [
        replace(
            x,
            properties={"neighbour" if a == "employer" else a: v for a, v in x.properties.items()},
        )
        for x in world()
    ]
    assert not any(n.startswith("second pass: ") for n in cluster(fragments, RunOptions()).notes)


def test_an_interrupted_second_pass_leaves_the_first_grouping() -> None:
    steps = list[Progress]()
    first = cluster(world(), RunOptions(refers="none"), on_step=steps.append)
    left = len(steps)

    def interrupt(progress: Progress) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Interrupted

    found = cluster(world(), RunOptions(), on_step=interrupt)
    assert first.complete
    assert not found.complete
    assert found.posterior.labels() == first.posterior.labels()
