"""Exports read back by the libraries of their formats: every fragment says what it said before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment, Particle, Posterior, Subproblem
from kbforge.testing.examples import HOSTILE_VALUES
from kbforge_plugins.exporters.ftm import FtmExporter
from kbforge_plugins.exporters.records import ParquetExporter
from tests.assembled import assemble
from tests.exporters import readers
from tests.exporters.exporting import exported
from tests.profile import examples

TEXTS = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
    | st.sampled_from(HOSTILE_VALUES)
    | st.sampled_from(
        ["http://a/b c", "https://a.org/x?y#z", "urn:kbforge:source:x", "@id", "a:b[]"]
    )
)
PROPERTIES = st.dictionaries(TEXTS, st.lists(TEXTS, min_size=1, max_size=2), min_size=1, max_size=3)


@st.composite
def knowledge(draw):
    """Fragments, and the entities that they are."""
    ids = draw(st.lists(TEXTS, min_size=1, max_size=5, unique=True))
    fragments = [
        Fragment(
            fragment_id,
            {key: tuple(values) for key, values in draw(PROPERTIES).items()},
            source=draw(st.none() | TEXTS),
        )
        for fragment_id in ids
    ]
    of = draw(st.lists(st.integers(0, 2), min_size=len(ids), max_size=len(ids)))
    clusters = tuple(
        tuple(i for i, k in enumerate(of) if k == number) for number in sorted(set(of))
    )
    block = Subproblem(tuple(range(len(ids))), (Particle(0.0, clusters),))
    return fragments, list(assemble(fragments, Posterior((block,), 0.0, len(ids), 0)))


def said(fragment):
    return {(key, value) for key, values in fragment.properties.items() for value in values}


def expected(fragments, entities, known, told=said):
    by_id = {fragment.id: fragment for fragment in fragments}
    return {
        entity.id: {
            i: (by_id[i].source if known else None, told(by_id[i])) for i in entity.fragments
        }
        for entity in entities
    }


def read_back(exporter, read, fragments, entities, known):
    return exported(exporter, entities, fragments if known else None, read)


def one_entity(*fragments):
    block = Subproblem(
        tuple(range(len(fragments))), (Particle(0.0, (tuple(range(len(fragments))),)),)
    )
    return list(assemble(fragments, Posterior((block,), 0.0, len(fragments), 0)))


@pytest.mark.parametrize("known", [False, True])
@given(made=knowledge())
@examples(40)
def test_fragment_for_fragment(known, made):
    found = read_back(ParquetExporter(), readers.parquet, *made, known)
    assert found == expected(*made, known)


@pytest.mark.parametrize("known", [False, True])
@given(made=knowledge())
@examples(40)
def test_ftm_loses_nothing(known, made):
    found = read_back(FtmExporter(), readers.ftm, *made, known)
    for entity, of in expected(*made, known).items():
        for i, (source, pairs) in of.items():
            there, held = found[entity][i]
            assert there == source
            values = {value for _, value in held}
            assert all(value in values or f"{key}: {value}" in values for key, value in pairs)


@pytest.mark.slow
def test_a_real_entity_in_every_vocabulary():
    fragments = [
        Fragment("a", {"name": ("Ada Lovelace",), "Birth date": ("1815-12-10",)}, source="census"),
        Fragment("b", {"name": ("Ada",), "country": ("Great Britain", "Utopia")}, source="atlas"),
    ]
    exporter = FtmExporter(schema="Person")
    (held,) = exported(exporter, one_entity(*fragments), fragments, readers.ftm).values()
    assert held == {
        "a": ("census", {("name", "Ada Lovelace"), ("birthDate", "1815-12-10")}),
        "b": (
            "atlas",
            {("name", "Ada"), ("country", "Great Britain"), ("notes", "country: Utopia")},
        ),
    }


def test_the_row_of_a_table_is_in_ftm():
    fragment = Fragment("a", {"name": ("Ada",)}, source="in.csv", metadata={"row": 12})
    read = exported(FtmExporter(), one_entity(fragment), [fragment])
    assert "in.csv:12" in read.decode()
