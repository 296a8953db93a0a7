"""The exporter `ftm`: FollowTheMoney statements.

The exporter writes statements as CSV, which name a fragment (`entity_id`) and its entity
(`canonical_id`) in two columns. So a new grouping of the same fragments changes only one column.

An attribute becomes the property of the schema that has its name or label, comparing only letters
and digits, or the property that the option `properties` names. A value that does not fit the
property's type, such as a country that FollowTheMoney does not know, goes to `notes`, as
"attribute: value", and so does a value of an attribute without a property. If FollowTheMoney
changes a value's form, `original_value` keeps the original. So nothing is lost, and nothing is
guessed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kbforge.contracts import Entity, Exporter, Fragment, View
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.cells import csv_writer
from kbforge.files.io import open_output
from kbforge.registry import install_command

if TYPE_CHECKING:
    from followthemoney.statement import Statement

_NOTES = "notes"


class FtmExporter(Exporter):
    """FollowTheMoney statements: the statements of each fragment, and its entity.

    Args:
        schema: schema of the entities, such as Person, Company or LegalEntity.
        properties: attribute=property pairs, such as born=birthDate.
        dataset: name of the statements' dataset.

    Raises:
        KBForgeError: followthemoney is not installed.
        UsageError: a schema or a property that FollowTheMoney does not know.
    """

    def __init__(
        self,
        schema: str = "LegalEntity",
        properties: tuple[str, ...] = (),
        dataset: str = "kbforge",
    ) -> None:
        try:
            from followthemoney import model
        except ImportError as error:
            raise KBForgeError(
                "exporter ftm needs followthemoney, which is not installed: "
                f"{install_command('ftm')}"
            ) from error
        found = model.get(schema)
        if found is None or found.abstract or _NOTES not in found.properties:
            raise UsageError(
                f"exporter ftm: schema: expected a FollowTheMoney schema of things, such as "
                f'Person, Company or LegalEntity, got "{quoted(schema)}"'
            )
        self._schema = schema
        self._dataset = dataset
        usable = {
            name: prop
            for name, prop in sorted(found.properties.items())
            if prop.type.name != "entity" and not prop.hidden
        }
        self._properties: dict[str, Any] = {_plain(str(p.label)): p for p in usable.values()}
        self._properties |= {_plain(name): prop for name, prop in usable.items()}
        self._named: dict[str, Any] = {}
        for pair in properties:
            attribute, equals, name = pair.partition("=")
            if not equals or name not in usable:
                raise UsageError(
                    f"exporter ftm: properties: expected attribute=property with a property of "
                    f'{schema}, got "{quoted(pair)}"'
                )
            self._named[attribute] = usable[name]

    def export(self, view: View, target: str) -> None:
        """Write a header and the statements, fragment by fragment."""
        from followthemoney.statement.serialize import CSV_COLUMNS

        with open_output(target) as out, csv_writer(out, csv.unix_dialect) as writer:
            writer.writerow(CSV_COLUMNS)
            for entity in view.entities():
                for fragment in view.fragments(entity):
                    for statement in self._statements(fragment, entity):
                        row = statement.to_csv_row()
                        writer.writerow([row[column] for column in CSV_COLUMNS])

    def _statements(self, fragment: Fragment, entity: Entity) -> Iterator[Statement]:
        from followthemoney.statement import Statement

        def statement(prop: str, value: str, original: str | None = None) -> Statement:
            return Statement(
                entity_id=fragment.id,
                prop=prop,
                schema=self._schema,
                value=value,
                dataset=self._dataset,
                original_value=original,
                canonical_id=entity.id,
                origin=fragment.place,
            )

        yield statement(Statement.BASE, fragment.id)
        stated: set[tuple[str, str]] = set()
        for attribute, values in fragment.properties.items():
            prop = self._named.get(attribute) or self._properties.get(_plain(attribute))
            for value in values:
                clean = None if prop is None else prop.type.clean(value)
                # two values that are one to FollowTheMoney would be one statement
                if prop is None or clean is None or (prop.name, clean) in stated:
                    name, clean, original = _NOTES, f"{attribute}: {value}", None
                else:
                    name, original = prop.name, value
                if (name, clean) not in stated:
                    stated.add((name, clean))
                    yield statement(name, clean, original)


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))
