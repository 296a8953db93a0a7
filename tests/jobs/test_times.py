"""Files, stores and Python say the same of when values were stated."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbforge
from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge.jobs.views import entities_of
from tests.people import people

CHOICES = {"likelihood": "attributes", "alpha": 20.0}


def dated(fragments: list[Fragment], years: int = 11) -> list[Fragment]:
    """With a year of observation, and a value that changes with it."""
    return [
        Fragment(
            x.id,
            {**x.properties, "job": (f"job {n % 7}",), "seen": (f"20{n % years:02}",)},
            label=x.label,
        )
        for n, x in enumerate(fragments)
    ]


FRAGMENTS = dated(people(40, 3))


def exported(store: Path) -> list[dict[str, object]]:
    return [entity.to_json() for entity in entities_of(str(store))]


def test_models_do_not_compare_times():
    plain = [
        Fragment(x.id, {k: v for k, v in x.properties.items() if k != "seen"}) for x in FRAGMENTS
    ]
    without = kbforge.cluster(plain, **CHOICES)
    found = kbforge.cluster(FRAGMENTS, time="seen", **CHOICES)
    assert [e.fragments for e in found.entities] == [e.fragments for e in without.entities]
    assert [e.confidence for e in found.entities] == [e.confidence for e in without.entities]
    values = [v for e in found.entities for of in e.properties.values() for v in of]
    assert all(value.first is not None for value in values)
    assert any(value.until is not None for value in values)
    assert all("seen" not in entity.properties for entity in found.entities)
    assert found.entities[0].made.choices["time"] == "seen"
    assert any(note.startswith('time="seen": 1') for note in found.notes), found.notes


def test_a_store_says_the_same_as_a_file(tmp_path):
    store, file = tmp_path / "kb.sqlite", tmp_path / "kb.jsonl"
    fragments = dated(people(40, 3), years=3)
    kbforge.update(store, fragments, time="seen", **CHOICES)
    kbforge.cluster(fragments, time="seen", **CHOICES).write(file)
    said, again = (
        {
            (e.fragments, k): [(v.value, v.first, v.last, v.until, v.confidence) for v in of]
            for e in read
            for k, of in e.properties.items()
        }
        for read in (entities_of(str(store)), kbforge.read_entities(file))
    )
    assert said == again
    assert any(sure is not None for values in said.values() for *_, sure in values)


def test_only_what_is_stated_at_the_same_time_contradicts() -> None:
    stated = [
        *(("2018", "Acme"), ("2018", "Acme"), ("2018", "Globex"), ("2019", "Initech")),
        *(("2020", "Acme"), (None, "Umbrella")),
    ]
    fragments = [
        Fragment(f"f{k}", {"name": ("Ann Lee",), "job": (job,)} | ({"seen": (t,)} if t else {}))
        for k, (t, job) in enumerate(stated)
    ]
    kb = kbforge.cluster(fragments, time="seen", likelihood="names", alpha=1.0)
    (entity,) = kb.entities
    sure = {value.value: value.confidence for value in entity.properties["job"]}
    assert sure["Acme"] > 0.5 > sure["Globex"] > 0
    assert sure["Initech"] is sure["Umbrella"] is None
    assert all(value.confidence is None for value in entity.properties["name"])
    assert kb.wide().to_pylist()[0]["job"] in ("Initech", "Umbrella")


def test_a_store_keeps_the_name_of_the_time(tmp_path):
    store = tmp_path / "kb.sqlite"
    kbforge.update(store, FRAGMENTS[:80], time="seen", **CHOICES)
    kbforge.update(store, FRAGMENTS[80:])
    again = kbforge.update(store, FRAGMENTS)
    assert (again.added, again.skipped) == (0, len(FRAGMENTS))
    values = [v for e in entities_of(str(store)) for of in e.properties.values() for v in of]
    assert all(value.first is not None for value in values)
    with pytest.raises(UsageError, match="was made with seen, got when"):
        kbforge.update(store, FRAGMENTS, time="when")
    bad = Fragment("bad", {"name": ("Ann",), "seen": ("soon",)})
    assert kbforge.update(store, [bad]).notes == (
        'time="seen": 0 fragments with a time, which no model compares; 1 cannot be read, such as '
        '"soon"',
    )


def test_a_new_store_needs_times(tmp_path):
    store = tmp_path / "kb.sqlite"
    with pytest.raises(UsageError, match=r'^time="nothing": no fragment has an attribute'):
        kbforge.update(store, FRAGMENTS, time="nothing", **CHOICES)
    kbforge.update(store, FRAGMENTS[:9], time="seen", **CHOICES)


def test_a_live_clustering_has_times():
    live = kbforge.open_session(FRAGMENTS, time="seen", **CHOICES)
    live.add(FRAGMENTS)
    entities = live.knowledge_base().entities
    assert all(v.first is not None for e in entities for of in e.properties.values() for v in of)


def test_an_export_at_a_time(tmp_path):
    entities = kbforge.cluster(FRAGMENTS, time="seen", **CHOICES).entities
    kbforge.export(entities, tmp_path / "kb.jsonl", at="2003")
    for entity in kbforge.read_entities(tmp_path / "kb.jsonl"):
        for of in entity.properties.values():
            assert all(value.first <= "2003" for value in of)
            assert (
                len(of) == 1
                or len({value.last for value in of}) < len(of)
                or any(value.first <= "2003" <= value.last for value in of)
            )


def test_an_authority_keeps_its_attributes(tmp_path):
    known = [
        Fragment("k", {"name": ("Ann Lee",), "seen": ("2001", "2002")}),
        Fragment("l", {"name": ("Bo Ek",)}),
    ]
    mentions = [
        Fragment("a", {"name": ("Ann Lee",), "seen": ("2010",)}),
        Fragment("b", {"name": ("Bo Ek",), "seen": ("2011",)}),
    ]
    choices = {"likelihood": "names", "time": "seen", "against": known}
    kbforge.update(tmp_path / "kb.sqlite", mentions, **choices)
    for read in (
        kbforge.cluster(mentions, **choices).entities,
        entities_of(f"{tmp_path}/kb.sqlite"),
    ):
        found = {e.id: e.properties for e in read}
        (name,) = found["k"]["name"]
        assert (name.fragments, name.first, name.last) == (("k", "a"), "2010", "2010")
        assert [value.value for value in found["k"]["seen"]] == ["2001", "2002"]
