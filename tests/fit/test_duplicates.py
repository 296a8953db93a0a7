"""What is said of linked tables whose records are there twice."""

from dataclasses import replace

from kbforge.contracts import Fragment
from kbforge.fit.duplicates import duplicates_note, tables_to_link


def table(source: str, *records: dict[str, str]) -> list[Fragment]:
    return [
        Fragment(f"{source}{k}", {a: (v,) for a, v in said.items()}, source=source)
        for k, said in enumerate(records)
    ]


def distinct(source: str, count: int) -> list[Fragment]:
    return table(source, *({"name": f"name {k}", "n": f"{source}{k}"} for k in range(count)))


def test_tables_without_duplicates():
    fragments = [*distinct("a", 40), *distinct("b", 40)]
    assert duplicates_note(fragments, "source") == "no table has identical records"


def test_equal_records_are_counted_by_table_whatever_their_case():
    twice = [*distinct("a", 40), *table("a", {"name": "NAME 3", "n": "A3"}), *distinct("b", 40)]
    assert duplicates_note(twice, "source") == (
        "2 records (2 of 41 of a) are identical to another one of their table, and stay separate"
    )


def test_a_table_of_many_near_records_is_named():
    # equal names, and what both state agrees: three of twenty records are near another one
    near = table("a", {"name": "name 3"}, {"name": "name 3", "n": "a3", "town": "Rome"})
    said = duplicates_note([*distinct("a", 18), *near, *distinct("b", 40)], "source")
    assert said.startswith("no table has identical")
    assert "a (15%) may have duplicates" in said
    assert "kbforge cluster without --link" in said
    assert "b (" not in said


def test_namesakes_in_conflict_are_no_duplicates():
    namesakes = table("a", *({"name": "Ann", "born": str(1900 + k)} for k in range(30)))
    assert "may have duplicates" not in duplicates_note(namesakes, "source")


def test_any_attribute_links():
    fragments = [*table("a", *[{"list": "x", "name": "Ann"}] * 2), *table("b", {"list": "y"})]
    assert duplicates_note(fragments, "list").startswith("2 records (2 of 2 of x) are identical")
    assert duplicates_note(fragments, "name").startswith("2 records (2 of 2 of Ann)")


def test_nothing_is_shared():
    assert duplicates_note(table("a", {"name": "Ann"}), "source") == ""


def test_many_records_of_one_name_take_no_long_time():
    fragments = table("a", *({"name": "Ann", "born": str(k)} for k in range(20_000)))
    assert "may have" not in duplicates_note(fragments, "source")


def test_a_file_of_two_tables_without_duplicates_could_be_linked():
    a, b = distinct("a", 50), distinct("b", 50)
    assert duplicates_note([*a, *b], None) == (
        "the fragments are of 2 tables (a, b) that seem free of duplicates; if they are, --link "
        "source compares them one to one"
    )
    assert duplicates_note(a, None) == ""
    assert duplicates_note([*a, *b[:49]], None) == ""  # too few records to be a table
    stray = Fragment("c", {"name": ("name",)})  # not all of a table
    again = [replace(f, id=f.id + "x") for f in a[:5]]  # duplicates
    assert duplicates_note([*a, *b, stray], None) == duplicates_note([*a, *b, *again], None) == ""
    assert (
        duplicates_note([f for s in "abcdef" for f in distinct(s, 50)], None) == ""
    )  # documents, not tables


def test_tables_to_link_may_have_some_duplicates():
    a, b = distinct("a", 50), distinct("b", 50)
    some = [*a, *b, *(replace(f, id=f.id + "x") for f in a[:2])]
    assert tables_to_link(some) == "2 tables (a, b)"
    assert duplicates_note(some, None) == ""
    assert tables_to_link([*some, *(replace(f, id=f.id + "x") for f in a[2:5])]) == ""
    assert tables_to_link(a) == ""
