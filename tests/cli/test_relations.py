"""`kbforge show` of values that name entities: with each entity, as paths, and as predicates."""

import tomllib
from dataclasses import replace

import pytest

from kbforge.contracts import Entity, Fragment, Meaning, Value
from kbforge.kb.read import read_entities
from tests.cli.conftest import lines


def entity(id, name, attributes):
    """One of an attribute's values is (text, fragment, entity or None, probability)."""
    held = {
        attribute: tuple(
            Value(text, (f,), meanings=() if of is None else (Meaning(of, p),))
            for text, f, of, p in values
        )
        for attribute, values in attributes.items()
    }
    fragments = dict.fromkeys(v.fragments[0] for values in held.values() for v in values)
    return Entity(id, name, held, tuple(fragments) or (f"of-{id}",), 1.0, 0)


ENTITIES = [
    entity(
        "ada",
        "Ada Lovelace",
        {
            "colleague": [("Babbage", "f1", "charles", 0.9)],
            "teacher": [("De Morgan", "f2", "augustus", 0.5)],
        },
    ),
    entity("charles", "Charles Babbage", {"member": [("RS", "g1", "society", 0.8)]}),
    entity(
        "augustus",
        "Augustus De Morgan",
        {
            "member": [("Royal Society", "h1", "society", 1.0)],
            "nick": [("RS", "h1", "society", 0.7)],
        },
    ),
    entity("society", "Royal Society", {}),
    entity("alone", "Robinson", {}),
    entity("v1", "Victoria", {}),
    entity("v2", "Victoria", {}),
]


@pytest.fixture
def kb(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kb.jsonl").write_bytes(lines(ENTITIES))
    fragments = [
        Fragment(f, {"name": ("x",)}, source=f"book {f}") for e in ENTITIES for f in e.fragments
    ]
    (tmp_path / "fragments.jsonl").write_bytes(lines(fragments))
    return tmp_path


def test_paths_are_told_with_who_states_each_step(program, kb):
    ran = program(
        "show", "kb.jsonl", "--path", "ada lovelace", "society", "--fragments", "fragments.jsonl"
    )
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.decode() == (
        "2 steps, probability 72 %\n"
        "  Ada Lovelace (ada)\n"
        "    ↓ colleague, 90 %, stated by f1 (book f1)\n"
        "  Charles Babbage (charles)\n"
        "    ↓ member, 80 %, stated by g1 (book g1)\n"
        "  Royal Society (society)\n"
        "\n"
        "2 steps, probability 50 %\n"
        "  Ada Lovelace (ada)\n"
        "    ↓ teacher, 50 %, stated by f2 (book f2)\n"
        "  Augustus De Morgan (augustus)\n"
        "    ↓ member, 100 %, stated by h1 (book h1)\n"
        "    ↓ nick, 70 %, stated by h1 (book h1)\n"
        "  Royal Society (society)\n"
        "\n"
    )


def test_paths_as_json_and_backwards(program, kb):
    ran = program("show", "-", "--path", "g1", "f1", "--json", stdin=(kb / "kb.jsonl").read_bytes())
    assert ran.json == {
        "from": "charles",
        "to": "ada",
        "paths": [
            {
                "entities": ["charles", "ada"],
                "probability": 0.9,
                "steps": [
                    [
                        {
                            "head": "ada",
                            "relation": "colleague",
                            "tail": "charles",
                            "probability": 0.9,
                            "fragments": ["f1"],
                            "spellings": ["Babbage"],
                        }
                    ]
                ],
            }
        ],
        "names": {"charles": "Charles Babbage", "ada": "Ada Lovelace"},
        "sources": {},
    }
    shown = program("show", "kb.jsonl", "--path", "g1", "f1").out.decode()
    assert "    ↑ colleague, 90 %, stated by f1\n  Ada" in shown


def test_what_is_not_connected(program, kb):
    ran = program("show", "kb.jsonl", "--path", "ada", "Robinson")
    assert (ran.code, ran.out) == (0, b"")
    expected = "no path of at most 10 steps connects Ada Lovelace (ada) with Robinson (alone)\n"
    assert ran.err == expected
    assert program("show", "kb.jsonl", "--path", "ada", "alone", "--json").json["paths"] == []


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            "--path ada Victoria",
            '2 entities are called "Victoria"; give the id of one: v1 (1 fragment), v2 (1 ',
        ),
        ("--path ada Nobody", 'the knowledge base has no entity "Nobody", by id, fragment or name'),
        ("--path ada f2", '"ada" and "f2" are the same entity'),
        ("--path ada", "--path: expected two entities, by id, fragment or name"),
        ("--path", "--path: expected two entities"),
        ("--path ada society --top 3", "--top and --path cannot be combined"),
        ("--path ada society --predicates", "--path and --predicates cannot be combined"),
        ("--path ada society --similarity", "--similarity and --path cannot be combined"),
        ("--predicates ada", "FIRST and --predicates cannot be combined"),
        ("ada society", "two ids require --similarity or --path; one shows an entity"),
        ("ada --id ada", "an entity by its name, --id and --fragment cannot be combined"),
        ("Nobody", 'the knowledge base has no entity "Nobody", by id, fragment or name'),
        ("--tree x.svg", "--tree requires --similarity"),
    ],
)
def test_errors_are_one_sentence(program, kb, command, sentence):
    program("show", "kb.jsonl", *command.split()).require_refusal(f"kbforge: {sentence}", 1, 2)


def test_an_entity_is_shown_by_id_fragment_or_name(program, kb):
    by_id = program("show", "kb.jsonl", "--id", "ada").out
    for text in ("ada", "f2"):
        assert program("show", "kb.jsonl", text).out == by_id
    name = program("show", "kb.jsonl", "--id", "ada", "--json").json["entities"][0]["name"]
    assert program("show", "kb.jsonl", name.upper()).out == by_id


def test_an_entity_is_shown_with_those_around_it(program, kb):
    shown = program("show", "kb.jsonl", "--id", "society").out.decode()
    assert "stated as member by 2, nick by 1\n" in shown
    shown = program("show", "kb.jsonl", "--fragment", "f1").out.decode()
    assert "Babbage → Charles Babbage (charles) 90 %" in shown
    ran = program("show", "kb.jsonl", "--id", "society", "--json").json
    assert ran["stated_as"] == {"society": {"member": 2, "nick": 1}}


def test_predicates_are_listed_and_joined_only_when_kept(program, kb):
    def person(k):
        where = [(f"Firm {k}", f"p{k}", "society", 1.0)]
        also = [(f"firm {k}", f"q{k}", "society", 0.5)]
        both = {"works for": where, "employer": [*where, *also]}
        return entity(f"person{k}", f"P{k}", both if k else {"employer": where})

    (kb / "kb.jsonl").write_bytes(lines([*map(person, range(11)), ENTITIES[3]]))
    ran = program("show", "kb.jsonl", "--predicates")
    assert ran.out.decode().splitlines() == [
        'default = "all"',
        "[relations]",
        '"works for" = "employer"  # 10 pairs have both, 10 the first, 11 the second',
    ]
    (kb / "policy.toml").write_bytes(ran.out)
    assert tomllib.loads(ran.out.decode())["relations"] == {"works for": "employer"}
    program("export", "kb.jsonl", "--policy", "policy.toml", "-o", "joined.jsonl")
    before, after = ({e.id: e for e in read_entities(f)} for f in ("kb.jsonl", "joined.jsonl"))
    assert after["person0"] == before["person0"]
    assert after["society"] == before["society"]
    one = before["person1"]
    properties = {"employer": one.properties["employer"]}
    assert after["person1"] == replace(one, properties=properties)
    ran = program("show", "joined.jsonl", "--predicates")
    assert (ran.out, ran.err) == (b"", "no two attributes connect the same pairs of entities\n")
    found = program("show", "kb.jsonl", "--predicates", "--json").json["same_relations"]
    assert found == [
        {"relation": "works for", "into": "employer", "both": 10, "pairs": 10, "of_into": 11}
    ]


STAFF = """id,name,employer,manager
1,Ada Berg,Acme,Bo Dahl
2,Ada Berg,Globex,Bo Dahl
3,Bo Dahl,Acme,
4,Acme,,
5,Globex,,
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--refers", "employer,manager"),
            "values that name entities: 3 of employer, 1 of manager",
        ),
        (("--refers", "id"), '--refers: no fragment has "id"'),
        (("--refers", "maneger"), 'no fragment has "maneger" (did you mean "manager"?)'),
        (("--refers", "none"), None),
    ],
)
def test_a_run_says_what_it_linked(program, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "staff.csv").write_text(STAFF)
    ran = program("cluster", "staff.csv", "-o", "new.jsonl", "--id", "id", *options)
    assert said in ran.err if said else "entities:" not in ran.err
    found = list(read_entities("new.jsonl")) if ran.code == 0 else []
    linked = [v for e in found for of in e.properties.values() for v in of if v.meanings]
    assert len(linked) == (4 if said and ran.code == 0 else 0)


def test_a_run_says_that_it_linked_nothing(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.csv").write_text("".join(STAFF.splitlines(True)[:3]))
    ran = program("cluster", "few.csv", "-o", "new.jsonl", "--refers", "employer")
    assert "--refers: no value of employer names an entity" in ran.err
