"""Exported graphs read back by other libraries: every fragment says what it said before."""

import re

import pytest
from hypothesis import given

from kbforge.contracts import Fragment
from kbforge_graphs.exporters.linked import JsonLdExporter, Neo4jExporter, NQuadsExporter
from tests.exporters.exporting import exported
from tests.exporters.test_round_trip import expected, knowledge, one_entity, read_back, said
from tests.graphs.exporters import readers
from tests.profile import examples


@pytest.mark.parametrize(
    ("exporter", "read"), [(NQuadsExporter, readers.nquads), (JsonLdExporter, readers.jsonld)]
)
@pytest.mark.parametrize("known", [False, True])
@given(made=knowledge())
@examples(40)
def test_fragment_for_fragment(exporter, read, known, made):
    assert read_back(exporter(), read, *made, known) == expected(*made, known)


@pytest.mark.parametrize("known", [False, True])
@given(made=knowledge())
@examples(60)
def test_neo4j_has_every_value_under_a_plain_name(known, made):
    def clean(text):
        return text.replace("\x1f", "\ufffd")

    def told(fragment):
        return {value for _, value in said(fragment)}

    found = read_back(Neo4jExporter(), readers.neo4j, *made, known)
    plain = {
        clean(entity): {
            clean(i): (source, {value for _, value in held}) for i, (source, held) in of.items()
        }
        for entity, of in found.items()
    }
    assert plain == {
        entity: {
            clean(i): (source and clean(source), set(map(clean, values)))
            for i, (source, values) in of.items()
        }
        for entity, of in expected(*made, known, told).items()
    }
    names = {name for of in found.values() for _, held in of.values() for name, _ in held}
    assert all(re.fullmatch(r"\w+", name) for name in names)


@pytest.mark.parametrize(
    ("exporter", "text"),
    [
        (NQuadsExporter, '<urn:kbforge:relation:row> "12"^^'),
        (JsonLdExporter, '"source":"in.csv","row":12'),
        (Neo4jExporter, '{""row"":12}'),
    ],
)
def test_the_row_of_a_table_is_in_every_format_with_sources(exporter, text):
    def read(target):
        return (target / "fragments.csv" if target.is_dir() else target).read_text()

    fragment = Fragment("a", {"name": ("Ada",)}, source="in.csv", metadata={"row": 12})
    assert text in exported(exporter(), one_entity(fragment), [fragment], read)
