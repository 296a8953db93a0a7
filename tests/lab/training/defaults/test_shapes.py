"""Shapes of a file keep its entities and change how they are told of."""

from collections import Counter, defaultdict

import pytest

from kbforge.contracts import Fragment
from kbforge_lab.training.defaults.families import LabelledFile
from kbforge_lab.training.defaults.shapes import SHAPES, augmented


def people(attributes: int = 3) -> LabelledFile:
    """Sixty people with three fragments each; every name and every value is one entity's own."""
    fragments = tuple(
        Fragment(
            f"f{entity * 3 + member}",
            {"name": (f"Ann{'abcdefghij'[entity % 10]} Lee{'abcdef'[entity // 10]}",)}
            | {f"a{k}": (f"v{k}x{entity}",) for k in range(attributes) if k != member - 1},
            label=f"e{entity}",
        )
        for entity in range(60)
        for member in range(3)
    )
    return LabelledFile("people", "p-1", fragments)


def shapes(file: LabelledFile) -> dict[str, LabelledFile]:
    return {shape.name.split("-")[0]: shape for shape in augmented(file)}


def test_a_file_has_every_shape_the_same_each_time():
    file = people()
    found = shapes(file)
    assert list(found) == list(SHAPES)
    assert found == shapes(file)
    for name, shape in found.items():
        assert shape.family == "people"
        assert shape.name == f"{name}-p-1"
        ids = [f.id for f in shape.fragments]
        assert len(set(ids)) == len(ids)
        assert all(f.properties and f.label for f in shape.fragments)
        if name != "offers":
            assert [(f.id, f.label) for f in shape.fragments] == [
                (f.id, f.label) for f in file.fragments
            ]


def test_namesakes_share_a_name_and_keep_their_attributes():
    file = people()
    shape = shapes(file)["namesakes"]
    bearers = defaultdict(set)
    for before, after in zip(file.fragments, shape.fragments, strict=True):
        bearers[after.names[0]].add(after.label)
        assert {**after.properties, "name": ()} == {**before.properties, "name": ()}
    assert 2 <= max(map(len, bearers.values())) <= 4
    several = sum(len(labels) for labels in bearers.values() if len(labels) > 1)
    assert several >= 0.25 * 60


def test_flattened_names_hold_what_the_attributes_held():
    file = people()
    for before, after in zip(file.fragments, shapes(file)["flattened"].fragments, strict=True):
        assert after.names[0].startswith(before.names[0])
        stated = {v for values in before.properties.values() for v in values}
        assert len(after.names[0].split()) > 2 or len(after.properties) > 1
        assert all(word in " ".join(stated) for word in after.names[0].replace(",", "").split())


def test_a_description_stands_beside_an_unchanged_name():
    file = people()
    shape = shapes(file)["described"].fragments
    assert [f.names for f in shape] == [f.names for f in file.fragments]
    described = [f for f in shape if "description" in f.properties]
    assert len(described) > 0.3 * len(shape)
    assert any(len(f.properties["description"][0]) > len(f.names[0]) for f in described)


def test_tables_have_columns_that_tell_nothing():
    """Over many files: split names, and running numbers that differ in every row."""
    tables = [
        shapes(LabelledFile("people", f"p-{k}", people().fragments))["tabulated"] for k in range(20)
    ]
    split = [t for t in tables if "surname" in t.fragments[0].properties]
    assert 5 < len(split) < 20
    assert all("name" not in f.properties for f in split[0].fragments)
    numbered = [t for t in tables if "no" in t.fragments[0].properties]
    assert 5 < len(numbered) < 20
    assert len({f.properties["no"] for f in numbered[0].fragments}) == 180


def test_offers_are_dozens_an_entity():
    files = [LabelledFile("people", f"p-{k}", people().fragments) for k in range(10)]
    largest = []
    for file in files:
        offers = shapes(file)["offers"].fragments
        assert len(offers) < 1000
        largest.append(max(Counter(f.label for f in offers).values()))
    assert max(largest) > 24


@pytest.mark.parametrize("attributes", [0, 1])
def test_names_alone_have_no_namesakes(attributes):
    """Nothing could tell them apart."""
    assert list(shapes(people(attributes))) == ["tabulated"]
