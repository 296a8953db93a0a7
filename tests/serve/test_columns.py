"""A server calls entities by the names that everything else says, and joins columns as they do."""

from kbforge.jobs.views import view_of
from kbforge_serve import facts
from kbforge_serve.readers import Readers
from tests.exporters.test_columns import NAMES, columns, store, table

__all__ = ["store", "table"]  # fixtures


def test_a_server_says_the_same_name(store, table):
    names = NAMES[table]
    named = [name for name in columns(table) if name.endswith("name")]
    readers = Readers(store)
    try:
        ids = [entity.id for entity in view_of(store).entities()]
        with readers.store() as opened:
            references = facts.references(readers, opened, ids)
        assert [one.name for one in references] == names
        for id, name in zip(ids, names, strict=True):
            told = facts.entity(readers, id)
            assert told.name == name
            assert " ".join(told.properties[a][0].value for a in named) == name
    finally:
        readers.close()
