"""Rules in files, tables and stores: what shares a value, and what differs."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbforge.contracts import Decision, Entity, Fragment
from kbforge.contracts.clusterer import RuleSet
from kbforge.contracts.fragment import comparable
from kbforge.errors import UsageError
from kbforge.files.rules import read_rules
from kbforge.fit.authority import Authority
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import cluster
from kbforge.jobs.decide import decide, undo
from kbforge.jobs.refit import refit
from kbforge.jobs.remove import remove
from kbforge.jobs.rules import set_rules
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge.store.changes import changes
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.people import people
from tests.program import Run
from tests.store.dump import dump

RULES = RuleSet(("vat id",), ("passport",))
TOML = 'never = ["vat id"]\nalways = ["passport"]\n'
PLAIN = RunOptions(likelihood="attributes", alpha=30.0)


def stating(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Some have a value that another entity has, too."""
    out = []
    for n, x in enumerate(fragments):
        more: dict[str, tuple[str, ...]] = {}
        if n % 2:
            more["vat id"] = (f"DE {n % 5}",)
        if n % 3 == 0:
            more["passport"] = (f"p{n % 21}",)
        out.append(replace(x, properties={**x.properties, **more}))
    return out


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.toml"
    path.write_text(TOML)
    return str(path)


def check(
    entities: Iterable[Entity], fragments: Sequence[Fragment], decisions: Sequence[Decision] = ()
) -> dict[str, str]:
    """No entity has values that differ; what shares one is one, unless such values forbid it."""
    home = {id: entity.id for entity in entities for id in entity.fragments}
    assert home.keys() >= {x.id for x in fragments}
    free = {home[id] for decision in decisions for id in (decision.first, decision.second)}
    for a, b in itertools.combinations(fragments, 2):
        said = [set(comparable(x.properties.get("vat id", ()))) for x in (a, b)]
        if home[a.id] == home[b.id] and all(said) and home[a.id] not in free:
            assert not said[0].isdisjoint(said[1])
    return home


def holders(fragments: Sequence[Fragment], passport: str) -> list[Fragment]:
    return [x for x in fragments if passport in x.properties.get("passport", ())]


def concerned(rules: RuleSet, fragments: Sequence[Fragment]) -> list[dict[str, object]]:
    """What the rules concern."""
    out: list[dict[str, object]] = []
    for rule, least, names in (("never", 1, rules.never), ("always", 2, rules.always)):
        for name in names:
            stated = [set(comparable(x.properties.get(name, ()))) for x in fragments]
            values = {v for v, n in Counter(v for one in stated for v in one).items() if n >= least}
            own = sum(bool(one & values) for one in stated)
            out.append({"rule": rule, "attribute": name, "fragments": own, "values": len(values)})
    return out


def test_a_file_and_a_store_in_pieces_honour_rules(tmp_path: Path, rules: str) -> None:
    found = stating(people(60, 2))
    free = [x for x in found if "vat id" not in x.properties]
    kb = cluster(found, replace(PLAIN, rules=rules))
    check(kb.entities, found)
    assert any('"passport" makes' in note for note in kb.notes)
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, found[:20], replace(PLAIN, rules=rules))
    for begin in range(20, len(found), 30):
        add_fragments(path, found[begin : begin + 30], RunOptions())
        check(entities_of(path), found[: begin + 30])
    home = check(entities_of(path), found)
    for value in {v for x in free for v in x.properties.get("passport", ())}:
        same = {home[x.id] for x in holders(free, value)}
        if all("vat id" not in x.properties for x in holders(found, value)):
            assert len(same) == 1
    refit(path)
    more = [Fragment("new", {"passport": found[0].properties["passport"]})]
    add_fragments(path, more, RunOptions())
    home = check(entities_of(path), [*found, *more])
    assert home["new"] == home[found[0].id]


def test_rules_set_later_tried_and_withdrawn(tmp_path: Path) -> None:
    found = stating(people(60, 2))
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, found, PLAIN)
    was = dump(path)
    tried = set_rules(path, RULES, rehearse=True)
    assert dump(path) == was
    taken = set_rules(path, RULES)
    assert taken.told["changed"] == tried.told["changed"] > 0
    assert taken.told["counts"] == tried.told["counts"] == concerned(RULES, found)
    check(entities_of(path), found)
    assert set_rules(path, RULES).told["already"]
    # a decision wins over a rule, until it is undone
    a, b = found[1], found[3]
    decisions = [Decision(True, a.id, b.id)]
    made = decide(path, decisions)
    home = check(entities_of(path), found, decisions)
    assert home[a.id] == home[b.id]
    remove(path, [found[5].id])
    undo(path, made.told["decisions"][0])
    rest = [x for x in found if x is not found[5]]
    home = check(entities_of(path), rest)
    assert home[a.id] != home[b.id]
    assert set_rules(path, RULES).told["counts"] == concerned(RULES, rest)
    set_rules(path, RuleSet())
    with Database(path) as database:
        assert database.examined()[1] == []


def test_what_a_rule_concerns_is_found_by_any_name(tmp_path: Path) -> None:
    name, path = 'pass"port\\ \u00e9\n', str(tmp_path / "kb.sqlite")
    said = [("A 1",), ("a1", "b"), ("b",), ("c", "n/a"), ()]
    found = [
        Fragment(f"{n}", {"name": ("Ann",), **({name: values} if values else {"other": (name,)})})
        for n, values in enumerate(said)
    ]
    add_fragments(path, found, PLAIN)
    never, always = set_rules(path, RuleSet((name,), (name,))).told["counts"]
    assert (never["fragments"], never["values"]) == (4, 3)
    assert (always["fragments"], always["values"]) == (3, 2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "kb.sqlite"
    add_fragments(str(path), stating(people(30, 2)), PLAIN)
    return path


def restorable(path: str) -> list[str]:
    """What an exact undo restores: all but what says that something was done and undone."""
    told = ("run", "image", "audit", "redirect", "decision")
    return [line for line in dump(path) if not line.startswith(told)]


@settings(deadline=None, max_examples=12)
@given(
    st.lists(
        st.sampled_from([RULES, RuleSet(("vat id",)), RuleSet((), ("passport",)), RuleSet(), True]),
        min_size=1,
        max_size=4,
    )
)
def test_what_is_taken_and_undone_at_once_leaves_the_same_store(
    made: Path, acts: list[RuleSet | bool]
) -> None:
    """Rules, and decisions among them, are undone in turn, the last one first."""
    path, before = str(made.with_name("copy.sqlite")), RuleSet()
    done: list[tuple[RuleSet | int, list[str]]] = []
    shutil.copy(made, path)
    ids = sorted(x.id for x in stating(people(30, 2)))
    for at, act in enumerate(acts):
        was = restorable(path)
        if isinstance(act, RuleSet):
            if act == before or (done and done[-1][0] == act):
                continue
            assert not set_rules(path, act).told["exact"]
            done.append((before, was))
            before = act
        else:
            (number,) = decide(path, [Decision(False, ids[at], ids[-1 - at])]).told["decisions"]
            done.append((number, was))
    for back, was in reversed(done):
        undone = set_rules(path, back) if isinstance(back, RuleSet) else undo(path, back)
        assert undone.told["exact"]
        assert restorable(path) == was
    with Database(path) as database:
        store, first = Store(database), [one.id for one in entities_of(str(made))]
        assert database.examined()[1] == []
        assert [*changes(store, 1)] == []
        assert all(store.now(id) for id in first)


def test_rules_that_are_withdrawn_later_say_that_the_grouping_may_differ(made: Path) -> None:
    path, told = str(made.with_name("later.sqlite")), "need not be grouped as it was"
    shutil.copy(made, path)
    set_rules(path, RULES)
    part = set_rules(path, RuleSet(RULES.never), rehearse=True)  # not those before
    assert told in part.told["notes"][-1]
    add_fragments(path, [Fragment("new", {"name": ("Ann",)})], RunOptions())
    was = dump(path)
    done = set_rules(path, RuleSet())
    assert not done.told["exact"]
    assert told in done.told["notes"][-1]
    assert set_rules(path, RULES, rehearse=True).told["exact"]  # undoes the withdrawal
    set_rules(path, RULES)
    told_of = ("run", "image", "audit", "redirect")
    assert [x for x in dump(path) if not x.startswith(told_of)] == [
        x for x in was if not x.startswith(told_of)
    ]


def test_linked_tables_and_an_authority(tmp_path: Path, rules: str) -> None:
    found = stating(people(40, 2))
    known = [replace(x, label=f"Q{n}") for n, x in enumerate(found[:20])]
    kb = cluster(found[20:], replace(PLAIN, rules=rules), against=Authority.of_fragments(known))
    check(kb.entities, found[20:])
    tables = [replace(x, source="ab"[n % 2]) for n, x in enumerate(found)]
    linked = cluster(tables, replace(PLAIN, rules=rules, link="source"))
    home = check(linked.entities, tables)
    assert len(set(home.values())) >= len(tables) / 2


def test_the_command_line(tmp_path: Path, rules: str, program: Run) -> None:
    table = tmp_path / "people.csv"
    table.write_text("id,name,vat id,passport\n1,Ann,1,p\n2,Ann,2,\n3,Bob,,P\n4,Ann,1,\n")
    store = str(tmp_path / "kb.sqlite")
    assert program("cluster", str(table), "--into", store).code == 0
    tried = program("decide", store, "--rules", rules, "--try")
    assert "nothing changed: never if vat id differs, always if passport is equal" in tried.err
    assert "never: 3 fragments state 2 values of vat id" in tried.err
    assert "always: 2 fragments share 1 value of passport" in tried.err
    assert program("decide", store, "--rules", rules, "--as", "ada", "--note", "law").code == 0
    home = {id: e.id for e in entities_of(store) for id in e.fragments}
    assert home["1"] == home["3"]
    assert home["1"] != home["2"]
    assert '"by":"ada"' in program("changes", store, "--audit").out.decode().splitlines()[-1]
    assert program("decide", store, "--rules", rules, "--list").code == 2
    none = tmp_path / "none.toml"
    none.write_text("")
    tried = program("decide", store, "--rules", str(none), "--try")
    assert "would change" in tried.err
    assert "exactly as before the last change of rules" in tried.err
    assert program("decide", store, "--try").code == 2
    other = tmp_path / "other.toml"
    other.write_text('never = ["colour"]\n')
    program("decide", store, "--rules", other).require_refusal('no fragment has "colour"')
    added = program("cluster", table, "--into", store, "--set", f"rules={other}")
    added.require_refusal("has other rules")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("never = 3", "expected"),
        ('ever = ["a"]', "unknown field"),
        ("never = [1]", "a string"),
        ("\0", "expected TOML"),
        ("a" * (2 << 20), "more than"),
    ],
)
def test_a_file_without_rules_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(content)
    with pytest.raises(UsageError, match=said):
        read_rules(str(path))
