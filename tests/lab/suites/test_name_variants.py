"""Name variants: each different name once, of the entities that have most."""

from __future__ import annotations

from kbforge.contracts import Fragment
from kbforge_lab.suites.name_variants import name_variants


def mention(number: int, label: str | None, *names: str) -> Fragment:
    return Fragment(str(number), {"name": names, "type": ("t",)}, label=label)


MENTIONS = [
    mention(0, "us", "US", "the US"),
    mention(1, "us", "US"),
    mention(2, "paris", "Paris"),
    mention(3, "paris", "Paris"),
    mention(4, "uk", "UK", "Britain"),
    mention(5, None, "nobody", "no one", "nil"),
    mention(6, "berlin", "Berlin"),
    Fragment("7", {"type": ("nameless",)}, label="berlin"),
]


def pairs(entities: int) -> list[tuple[str | None, str]]:
    made = name_variants(MENTIONS, entities)
    assert all(set(f.properties) == {"name"} and len(f.properties["name"]) == 1 for f in made)
    assert len({f.id for f in made}) == len(made)
    assert made == name_variants(MENTIONS, entities)
    return sorted((f.label, f.properties["name"][0]) for f in made)


def test_each_name_of_the_largest_entities_is_a_fragment() -> None:
    us = [("us", "US"), ("us", "the US")]
    uk = [("uk", "Britain"), ("uk", "UK")]
    # "us" has as many names as "uk" and more mentions; Paris more mentions than Berlin
    assert pairs(1) == us
    assert pairs(2) == sorted(us + uk)
    assert pairs(3) == sorted([*us, *uk, ("paris", "Paris")])
    assert pairs(9) == sorted([*us, *uk, ("paris", "Paris"), ("berlin", "Berlin")])
