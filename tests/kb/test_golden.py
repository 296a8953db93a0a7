"""Golden records: what each rule takes, what breaks ties, and policies that are none."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Entity, Fragment, Value
from kbforge.errors import KBForgeError, UsageError
from kbforge.kb.entities import described
from kbforge.kb.view import RULES, EntitiesView, GoldenView, Policy, golden, read_policy
from tests.kb.test_edges import knowledge

FRAGMENTS = [
    Fragment("a", {"name": ("Ada",), "seen": ("2019-05",)}, None, None, "web", {"day": "2020"}),
    Fragment("b", {"name": ("A. L.",)}, None, None, "registry:7", {"day": "2021-03-01T10:00:00Z"}),
    Fragment("c", {"name": ("Ada",), "seen": ("2024", "none")}, metadata={"day": 5}),
    Fragment(
        "d", {"name": ("Ada Lovelace",)}, None, None, "registry of deeds", {"day": "20200102"}
    ),
    Fragment("e", {"name": ("Countess",)}, None, None, "gazette"),
]
ENTITY = Entity(
    "e1",
    "Ada",
    {
        "name": (
            Value("Ada", ("a", "c")),
            Value("A. L.", ("b",)),
            Value("Ada Lovelace", ("d",)),
            Value("Countess", ("e",)),
        ),
        "seen": (Value("2019-05", ("a",)), Value("2024", ("c",)), Value("none", ("c",))),
    },
    ("a", "b", "c", "d", "e"),
    1.0,
    0,
)


def view(known=True):
    return EntitiesView(lambda: iter([ENTITY]), FRAGMENTS if known else None)


def taken(policy, known=True):
    (entity,) = GoldenView(view(known), policy).entities()
    return [(value.value, value.fragments) for value in entity.properties["name"]]


@pytest.mark.parametrize(
    ("policy", "value"),
    [
        (Policy("most-stated"), ("Ada", ("a", "c"))),
        (Policy("fused"), ("Ada", ("a", "c"))),
        (Policy("longest"), ("Ada Lovelace", ("d",))),
        (Policy("latest"), ("Countess", ("e",))),
        (Policy("latest", date=("metadata", "day")), ("A. L.", ("b",))),
        (Policy("latest", date=("properties", "seen")), ("Ada", ("a", "c"))),
        (Policy("preferred", sources=("registry", "web")), ("A. L.", ("b",))),
        (Policy("preferred", sources=("gazette", "registry")), ("Countess", ("e",))),
        (Policy("preferred", sources=("nowhere",)), ("Ada", ("a", "c"))),
        (Policy("longest", {"name": "most-stated"}), ("Ada", ("a", "c"))),
    ],
)
def test_what_a_rule_takes(policy, value):
    assert taken(policy) == [value]


def test_the_most_probable_value_is_taken_in_its_best_spelling():
    values = (
        Value("Ann", ("a", "b"), 0.2),
        Value("ANNABEL LEE", ("c",), 0.7),
        Value("Annabel Lee", ("d",), 0.7),
        Value("n/a", ("e",), 0.0),
    )
    entity = replace(ENTITY, properties={"name": values})
    assert golden(entity, Policy(), list).properties["name"] == (values[2],)
    assert golden(entity, Policy("most-stated"), list).properties["name"] == (values[0],)


def test_all_are_taken_as_they_stand():
    (entity,) = GoldenView(view(), Policy("all")).entities()
    assert entity == ENTITY


@pytest.mark.parametrize(
    ("rule", "values", "value"),
    [
        ("most-stated", ["short", "short", "much longer"], "short"),
        ("most-stated", ["Ann", "Annabel"], "Annabel"),
        ("most-stated", ["Bea", "Ann"], "Ann"),
        ("most-stated", ["ANN LEE", "Ann Lee", "ann lee", "Ann-Lee", "Zoe", "Zoe"], "Ann Lee"),
        ("longest", ["Ann Lee", "ANN LEE", "ANN LEE", "Zoe"], "Ann Lee"),
    ],
)
def test_ties(rule, values, value):
    fragments = [Fragment(str(at), {"a": (one,)}) for at, one in enumerate(values)]
    ids = tuple(fragment.id for fragment in fragments)
    entity = Entity("e", "x", described(fragments).properties, ids, 1.0, 0)
    (found,) = golden(entity, Policy(rule), list).properties["a"]
    assert found.value == value


@pytest.mark.parametrize(
    "policy", [Policy("preferred", sources=("x",)), Policy("latest", date=("metadata", "day"))]
)
def test_what_entities_do_not_hold_must_be_given(policy):
    with pytest.raises(UsageError, match="give the file that was clustered as --fragments"):
        GoldenView(view(known=False), policy)


def test_fragments_that_are_told_say_all_that_they_said():
    golden_view = GoldenView(view(known=False), Policy("longest"))
    (entity,) = golden_view.entities()
    assert golden_view.fragments(entity)[0].properties == {"name": ("Ada",), "seen": ("2019-05",)}
    assert taken(Policy("latest", date=("properties", "seen")), False) == [("Ada", ("a", "c"))]


def test_rules_of_attributes_that_are_nowhere_are_known():
    golden_view = GoldenView(view(), Policy(attributes={"nmae": "all", "name": "all"}))
    list(golden_view.entities())
    assert golden_view.unused == {"nmae"}


@given(
    rule=st.sampled_from(RULES),
    texts=st.lists(st.text(min_size=1), min_size=1, max_size=4, unique=True),
    days=st.lists(st.none() | st.text() | st.datetimes().map(str), min_size=4, max_size=4),
)
def test_a_value_of_the_entity_with_all_its_fragments(rule, texts, days):
    fragments = [
        Fragment(f"f{i}", {"a": (text,)}, None, None, None, {"day": day})
        for i, (text, day) in enumerate(zip(texts, days, strict=False))
    ]
    values = tuple(Value(text, (f"f{i}",)) for i, text in enumerate(texts))
    entity = Entity("e", "x", {"a": values}, tuple(f.id for f in fragments), 1.0, 0)
    policy = Policy(rule, sources=("s",), date=("metadata", "day"))
    found = golden(entity, policy, lambda _: fragments)
    assert replace(found, properties=entity.properties) == entity
    assert set(found.properties["a"]) <= set(values)
    assert len(found.properties["a"]) == (len(values) if rule == "all" else 1)


def test_a_file(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(
        'default = "longest"\nsources = ["registry"]\ndate = "metadata.last.seen"\n'
        '[attributes]\n"full name" = "preferred"\n'
    )
    expected = Policy(
        "longest", {"full name": "preferred"}, ("registry",), ("metadata", "last.seen")
    )
    assert read_policy(str(path)) == expected
    assert read_policy("latest") == Policy("latest")
    path.write_text("")
    assert read_policy(str(path)) == Policy()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("default = 1", "default: expected one of all, fused, latest, longest, most-stated"),
        ('default = "best"', "default: expected one of all, fused, latest"),
        ("[attributes]\nname = true", "attributes.name: expected one of all, fused, latest"),
        ('attribute = "all"', "attribute: expected one of default, attributes, sources, date"),
        ('default = "preferred"', "sources: expected the sources that are preferred, best first"),
        ('sources = ["a", 1]', "sources[1]: expected a string, got 1"),
        ('date = "updated"', "date: expected metadata.NAME or properties.NAME, got updated"),
        ('date = "metadata."', "date: expected metadata.NAME or properties.NAME"),
        ("[relations]\nknows = 7", "relations.knows: expected the name of an attribute, got 7"),
        ("default = ", "expected TOML"),
    ],
)
def test_errors_name_file_and_field(tmp_path, content, sentence):
    path = tmp_path / "policy.toml"
    path.write_text(content)
    with pytest.raises(KBForgeError) as error:
        read_policy(str(path))
    assert str(error.value).startswith(f"{path}: {sentence}")


def test_neither_rule_nor_file():
    with pytest.raises(UsageError, match=r"^the policy preferred needs sources to prefer"):
        read_policy("preferred")
    with pytest.raises(
        UsageError, match=r'^expected a policy \(all, .*\) or a file with one, got "bset"'
    ):
        read_policy("bset")


@given(knowledge())
def test_relations_that_mean_the_same_are_joined_without_loss(entities):
    policy = Policy(default="all", relations={"knows": "employer"})
    for one, joined in zip(
        entities, GoldenView(EntitiesView(lambda: iter(entities)), policy).entities(), strict=True
    ):

        def statements(entity, names):
            return {
                (names.get(attribute, attribute), value.value, fragment)
                for attribute, values in entity.properties.items()
                for value in values
                for fragment in value.fragments
            }

        assert statements(joined, {}) == statements(one, policy.relations)
        for attribute, values in joined.properties.items():
            assert len({value.value for value in values}) == len(values)
            if "knows" in one.properties:
                assert [v.count for v in values] == sorted((v.count for v in values), reverse=True)
            else:
                assert values == one.properties[attribute]
            stated = [v for name in one.properties for v in one.properties[name]]
            for value in values:
                surest = max(
                    (v.meanings[0].probability if v.meanings else 0)
                    for v in stated
                    if v.value == value.value
                )
                assert (value.meanings[0].probability if value.meanings else 0) == surest
