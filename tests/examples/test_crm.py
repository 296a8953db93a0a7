"""The customer file is what its script writes, and is read by what its values mean."""

import csv
import runpy
from pathlib import Path

from kbforge.contracts import Fragment
from kbforge.texts.statements import StatedValues
from kbforge_plugins.likelihoods.attributes.fitting import vocabularies_of

FOLDER = Path(__file__).parents[2] / "examples" / "crm"
READ = {
    "name": "text", "email": "email", "mobile": "phone", "phone": "phone", "born": "date",
    "street": "code", "city": "category", "postcode": "code",
}  # fmt: skip


def records() -> list[Fragment]:
    with (FOLDER / "customers.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    said = [{name: (row[name],) for name in row if row[name] and name != "person"} for row in rows]
    return [Fragment(str(k), properties) for k, properties in enumerate(said)]


def test_the_committed_file_is_what_the_script_writes():
    made = runpy.run_path(str(FOLDER / "make.py"))["table"]()
    assert (FOLDER / "customers.csv").read_text(encoding="utf-8") == made, "run make.py"
    assert len({row.rpartition(",")[2] for row in made.splitlines()[1:]}) == 615


def test_columns_that_say_nothing_about_people_are_not_read():
    found = vocabularies_of(StatedValues.of(records()))
    assert {name: vocabulary.kind for name, vocabulary in found.items()} == READ
