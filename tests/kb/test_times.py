"""Times of statements: what is a time, from when to when values hold, and what held when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Entity, Fragment, Value
from kbforge.contracts.fragment import TIMES
from kbforge.errors import BadRecord, UsageError
from kbforge.files.columns import in_metadata, metadata_of, statements_of
from kbforge.kb.entities import entity_lines
from kbforge.kb.pools import Pools
from kbforge.kb.times import (
    Period,
    StatedTimes,
    extent,
    holds,
    last_stated,
    read_time,
    spans_of,
    when,
    with_times_of,
)
from kbforge.kb.view import EntitiesView, GoldenView, Policy, held_at, selected
from tests.assembled import assemble
from tests.kb.posteriors import posterior, subproblem
from tests.kb.test_lines import columns_of

MICROSECOND = timedelta(microseconds=1)


def micro(*moment: int, hours: int = 0) -> int:
    zone = timezone(timedelta(hours=hours))
    return (datetime(*moment, tzinfo=zone) - datetime(1970, 1, 1, tzinfo=UTC)) // MICROSECOND


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("2019", micro(2019, 1, 1), micro(2020, 1, 1) - 1),
        ("2020", micro(2020, 1, 1), micro(2021, 1, 1) - 1),
        ("9999", micro(9999, 1, 1), micro(9999, 12, 31) + 86_400_000_000 - 1),
        ("2020-02", micro(2020, 2, 1), micro(2020, 3, 1) - 1),
        ("2019-12", micro(2019, 12, 1), micro(2020, 1, 1) - 1),
        ("2019-03-01", micro(2019, 3, 1), micro(2019, 3, 2) - 1),
        ("20190301", micro(2019, 3, 1), micro(2019, 3, 2) - 1),
        ("2019-03-01T10:00Z", micro(2019, 3, 1, 10), micro(2019, 3, 1, 10)),
        ("2019-03-01 10:00", micro(2019, 3, 1, 10), micro(2019, 3, 1, 10)),
        ("2019-03-01T01:00:00+02:00", micro(2019, 2, 28, 23), micro(2019, 2, 28, 23)),
        ("2019-03-01T01:00:00.5-05:00", micro(2019, 3, 1, 6, 0, 0, 500_000), None),
    ],
)
def test_a_time_is_a_period(text, begin, end):
    assert read_time(text) == (begin, begin if end is None else end)


@pytest.mark.parametrize(
    "text", ["", "soon", "19", "19X0", "2019-13", "2019-02-30", "10:30", "2019W1", "0000", "-0044"]
)
def test_other_texts_are_no_times(text):
    assert read_time(text) is None


@given(st.datetimes(), st.integers(-14, 14), st.integers(-14, 14))
def test_zones_change_no_order(moment, one, other):
    try:
        texts = [
            moment.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=h))).isoformat()
            for h in (one, other)
        ]
    except OverflowError:
        return
    assert read_time(texts[0]) == read_time(texts[1]) == (micro_of(moment), micro_of(moment))


def micro_of(moment: datetime) -> int:
    return (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // MICROSECOND


# What entities say, against the definition.

TIMES_STATED = st.sampled_from(
    [
        *("2010", "2011", "2012", "2011-06", "2011-06-15", "2011-12-31", "2012-01-01", "soon"),
        *("2011-06-15T10:00Z", "2011-06-15T12:00+02:00", "2011-06-15T09:59-01:00"),
    ]
)
STATEMENTS = st.lists(st.tuples(st.sampled_from("abc"), TIMES_STATED | st.none()), min_size=1)
ASKED = ("2009", "2010", "2011-06-15T10:00Z", "2011-06-15", "2011", "2012", "2030")


def fragments_of(statements) -> list[Fragment]:
    return [
        Fragment(f"f{n}", {"x": (value,)} | ({} if time is None else {"seen": (time,)}))
        for n, (value, time) in enumerate(statements)
    ]


def entity_of(fragments, several=()) -> Entity:
    apart = in_metadata(fragments, "seen")
    one = tuple(range(len(fragments)))
    pools = Pools.of(statements_of(apart), np.zeros(len(apart), np.int64))
    annotators = [StatedTimes(apart, "seen").annotator(several, pools)]
    (entity,) = assemble(apart, posterior(subproblem(one, (1, [one]))), annotators=annotators)
    return entity


def values_of(statements, several=()) -> dict[str, Value]:
    return {v.value: v for v in entity_of(fragments_of(statements), several).properties["x"]}


def held_by_definition(statements, at) -> dict[str, bool]:
    """Whether each value holds at a microsecond: by one of its statements that began by then and
    that no statement of another value, which began by then, contradicts."""
    timed = [(v, p) for v, time in statements if time and (p := read_time(time))]
    begun = [(v, p) for v, p in timed if p.begin <= at]
    return {
        value: all(v != value for v, _ in timed)
        or any(
            v == value and not any(w != value and q.begin > p.end for w, q in begun)
            for v, p in begun
        )
        for value, _ in statements
    }


def moments_of(statements) -> list[int]:
    """All times at which something may begin or end, and those before and after them."""
    periods = [p for _, time in statements if time and (p := read_time(time))]
    return sorted({at + d for p in periods for at in p for d in (-1, 0, 1)}) or [0]


@given(STATEMENTS)
def test_what_held_is_decided_by_the_statements(statements):
    found = values_of(statements)
    for at in moments_of(statements):
        held = {v: holds(one, Period(at, at)) for v, one in found.items()}
        assert held == held_by_definition(statements, at)


@given(STATEMENTS)
def test_members_sum_up_the_statements(statements):
    found, moments = values_of(statements), moments_of(statements)
    for value, one in found.items():
        own = [t for v, t in statements if v == value and t and read_time(t)]
        if not own:
            assert (one.first, one.last, one.until, one.held) == (None, None, None, ())
            continue
        periods = [read_time(t) for t in own]
        assert read_time(one.first).begin == min(p.begin for p in periods)
        assert read_time(one.last).end == max(p.end for p in periods)
        spans = spans_of(one)
        assert {t for span in spans for t in span.stated} <= {*own}
        assert one.first in spans[0].stated
        assert one.last in spans[-1].stated
        assert one.until == spans[-1].until
        ends = [extent(span) for span in spans]
        assert all(end + 1 < begin for (_, end), (begin, _) in pairwise(ends)), "apart, in order"
        assert (one.until is None) == holds(one, Period(moments[-1], moments[-1]))
        assert bool(one.held) == (len(spans) > 1 or {*own} != {one.first, one.last})
        for at in moments:
            begun = [p.end for p in periods if p.begin <= at]
            assert last_stated(one, Period(at, at)) == max(begun, default=float("-inf"))


@given(STATEMENTS)
def test_something_holds_once_something_was_stated(statements):
    found = values_of(statements)
    for text in ASKED:
        at = read_time(text)
        begun = {v: last for v, x in found.items() if (last := last_stated(x, at)) > float("-inf")}
        held = {v for v, one in found.items() if one.first and holds(one, at)}
        assert held <= begun.keys()
        assert {v for v, last in begun.items() if last == max(begun.values())} <= held


@given(STATEMENTS.flatmap(lambda s: st.tuples(st.just(s), st.permutations(s))))
def test_the_order_of_statements_does_not_matter(orders):
    one, other = map(values_of, orders)
    times = [{v: (x.first, x.last, x.until, x.held) for v, x in of.items()} for of in (one, other)]
    assert times[0] == times[1]


@given(STATEMENTS, STATEMENTS)
def test_more_statements_remove_no_value(some, more):
    before, after = values_of(some), values_of(some + more)
    for value, one in before.items():
        assert after[value].count >= one.count
        if one.first is not None:
            assert read_time(after[value].first).begin <= read_time(one.first).begin
            assert read_time(after[value].last).end >= read_time(one.last).end


@given(STATEMENTS)
def test_now_the_latest_holds(statements):
    entity = entity_of(fragments_of(statements))
    (latest,) = GoldenView(
        EntitiesView(lambda: iter([entity])), Policy("latest", at=read_time("2030"))
    ).entities()
    (whole,) = GoldenView(EntitiesView(lambda: iter([entity])), Policy("latest")).entities()
    assert latest.properties == whole.properties
    dated = [v for v in entity.properties["x"] if v.last is not None]
    if dated:
        (chosen,) = whole.properties["x"]
        assert read_time(chosen.last).end == max(read_time(v.last).end for v in dated)


@given(STATEMENTS)
def test_columns_say_the_same(statements):
    of = fragments_of(statements)
    columns = columns_of(of)
    if all(time is None for _, time in statements):
        assert in_metadata(columns, "seen") is columns
    apart = in_metadata(columns, "seen")
    assert list(apart) == in_metadata(of, "seen")
    assert apart[0] == in_metadata(of, "seen")[0]
    one = tuple(range(len(of)))
    grouped = posterior(subproblem(one, (1, [one])))
    pools = Pools.of(statements_of(apart), np.zeros(len(of), np.int64))
    lines = [
        [*entity_lines(f, grouped, annotators=[StatedTimes(f, "seen").annotator((), pools)])]
        for f in (apart, in_metadata(of, "seen"), columns_of(in_metadata(of, "seen")))
    ]
    assert lines[0] == lines[1] == lines[2]


def test_several_values_at_a_time_do_not_contradict():
    found = values_of([("a", "2010"), ("b", "2012")], several={"x"})
    assert [(v.first, v.until) for v in found.values()] == [("2010", None), ("2012", None)]


def test_a_year_and_the_date_in_it_do_not_end_each_other():
    stated = [("1928", "2015"), ("26 February 1928", "2017"), ("1928-02-26", "2018")]
    assert {v.until for v in values_of(stated).values()} == {None}
    found = values_of([*stated, ("1931-05-01", "2019")])
    assert [found[text].until for text, _ in stated] == ["2019"] * 3
    assert found["1931-05-01"].until is None
    assert not holds(found["1928"], read_time("2020"))


# Times of single values.


def single(stated, several=("x",)) -> dict[str, Value]:
    values = tuple(stated)
    fragments = [Fragment("f", {"x": values}, metadata={TIMES: {"x": stated}})]
    pools = Pools.of(statements_of(fragments), np.zeros(1, np.int64))
    annotators = [StatedTimes(fragments, None).annotator(several, pools)]
    (entity,) = assemble(fragments, posterior(subproblem((0,), (1, [(0,)]))), annotators=annotators)
    return {value.value: value for value in entity.properties["x"]}


def test_a_source_gives_the_end():
    found = single({"a": [["2010", "2015"]], "b": [["2014", ""]], "c": [["", "2012"]]})
    said = {name: (v.first, v.last, v.until) for name, v in found.items()}
    assert said == {
        "a": ("2010", "2015", "2015"),
        "b": ("2014", "2014", None),
        "c": ("2012", "2012", "2012"),
    }
    held = {at: [v for v in "abc" if holds(found[v], read_time(at))] for at in ("2011", "2015")}
    assert held == {"2011": ["a"], "2015": ["a", "b"]}
    assert [v for v in "abc" if holds(found[v], read_time("2016"))] == ["b"]


def test_a_source_says_that_a_value_held_twice():
    found = single({"a": [["2010", "2012"], ["2015", "2016"]]})["a"]
    held = [y for y in range(2009, 2019) if holds(found, read_time(str(y)))]
    assert held == [2010, 2011, 2012, 2015, 2016]
    assert when(found, (found,)) == "2010 until 2012; 2015 until 2016"


def test_what_begins_again_has_not_ended():
    found = single({"a": [["2010", "2012"], ["2015", ""]]})
    assert (found["a"].first, found["a"].last, found["a"].until) == ("2010", "2015", None)


@pytest.mark.parametrize(
    "stated", [5, [], {"x": 5}, {"x": {"a": 5}}, {"x": {"a": [["2010"]]}}, {"x": {"a": [[1, []]]}}]
)
def test_metadata_of_another_form_have_no_times(stated):
    fragments = [Fragment("f", {"x": ("a",)}, metadata={TIMES: stated})]
    assert not StatedTimes(fragments, None)
    assert not StatedTimes(columns_of(fragments), None)


# Fragments with a time, and without.


def test_an_attribute_goes_into_metadata():
    fragments = [
        Fragment("a", {"seen": ("2010",), "x": ("1",)}, metadata={"row": 1}),
        Fragment("b", {"x": ("1", "2")}, (0.5,), metadata={"y": ["z"]}),
        Fragment("c", {"seen": ("2011",)}, (0.5,)),
    ]
    for of in (fragments, columns_of(fragments)):
        assert list(in_metadata(of, "seen")) == [
            Fragment("a", {"x": ("1",)}, metadata={"row": 1, "seen": "2010"}),
            fragments[1],
            Fragment("c", {}, (0.5,), metadata={"seen": "2011"}),
        ]
        given_ones, numbers = metadata_of(in_metadata(of, "seen"), "seen")
        assert [given_ones[n] if n >= 0 else None for n in numbers] == ["2010", None, "2011"]
        assert in_metadata(of, None) is of
        assert list(in_metadata(of, "nothing")) == fragments


@pytest.mark.parametrize(
    ("bad", "got"),
    [({"seen": ("2010", "2011"), "x": ("1",)}, "several"), ({"seen": ("2010",)}, "no others")],
)
def test_a_fragment_has_one_time_and_something_else(bad, got):
    fragments = [Fragment("a", {"x": ("1",)}), Fragment("b", bad)]
    for of in (fragments, columns_of(fragments)):
        with pytest.raises(BadRecord, match=f"^b: seen: expected one value, and .*, got {got}"):
            in_metadata(of, "seen")


@pytest.mark.parametrize("name", ["row", "authority", "times"])
def test_names_that_mean_something_else_are_refused(name):
    with pytest.raises(UsageError, match=f"^--time {name}: metadata have something else"):
        in_metadata([], name)


@pytest.mark.parametrize(
    ("times", "note"),
    [
        (["2010", "2011"], "2 fragments with a time, which no model compares"),
        (["2010", None], "1 fragment with a time, which no model compares"),
        (
            ["2010", "soon"],
            '1 fragment with a time, which no model compares; 1 cannot be read, such as "soon"',
        ),
    ],
)
def test_a_note_counts_times(times, note):
    fragments = in_metadata(fragments_of([("a", time) for time in times]), "seen")
    for of in (fragments, columns_of(fragments)):
        assert StatedTimes(of, "seen").note() == f"--time seen: {note}"
        assert StatedTimes(of, None).note() == ""
    strange = StatedTimes(in_metadata(fragments_of([("a", "\x1bsoon")]), "seen"), "seen")
    assert '"\\x1bsoon"' in strange.note(strict=False)


def test_without_any_time_there_is_an_error():
    expected = '^--time seen: expected a time such .*, got "soon"$'
    missing = "^--time sen: no fragment has an attribute of this name, nor its metadata"
    for time, name, said in (("soon", "seen", expected), ("2010", "sen", missing)):
        fragments = in_metadata(fragments_of([("a", time)]), name)
        for of in (fragments, columns_of(fragments)):
            with pytest.raises(UsageError, match=said) as error:
                StatedTimes(of, name).note()
            assert name == "seen" or str(error.value).endswith(' (did you mean "seen"?)')


# What held, for readers.

ACME = Value("Acme", ("a",), first="2015", last="2018-05", until="2019-06-01")
BETA = Value("Beta", ("b",), first="2019-06-01", last="2019-06-01")
PERSON = Entity(
    *("e", "Ann Lee"),
    {
        "name": (
            Value("Ann Lee", ("b",), first="2019-06-01", last="2019-06-01"),
            Value("Ann Oak", ("a",), first="2015", last="2018-05", until="2019-06-01"),
        ),
        "employer": (ACME, BETA),
        "born": (Value("1990", ("c",)),),
        "died": (Value("2020", ("b",), first="2020", last="2020"),),
    },
    *(("a", "b", "c"), 1.0, 0),
)


def test_words_of_times():
    assert when(ACME, (ACME, BETA)) == "2015 to 2018-05, until 2019-06-01, then Beta"
    assert when(ACME, (ACME,)) == "2015 to 2018-05, until 2019-06-01"
    assert when(BETA, (ACME, BETA)) == "2019-06-01"
    assert when(Value("x", ("a",)), ()) == ""


@pytest.mark.parametrize(
    ("at", "name", "values"),
    [
        ("2014", "Ann Lee", {"born": "1990"}),
        ("2017", "Ann Oak", {"name": "Ann Oak", "employer": "Acme", "born": "1990"}),
        ("2019-05", "Ann Oak", {"name": "Ann Oak", "employer": "Acme", "born": "1990"}),
        ("2019", "Ann Lee", {"name": "Ann Lee", "employer": "Beta", "born": "1990"}),
    ],
)
def test_an_entity_at_a_time(at, name, values):
    found = held_at(PERSON, read_time(at))
    assert (found.name, {k: v.value for k, (v,) in found.properties.items()}) == (name, values)
    assert found.fragments == PERSON.fragments


def test_a_view_at_a_time_keeps_fragments_and_says_if_nothing_has_a_time():
    fragments = [Fragment(name, {"z": (name,)}) for name in "abc"]
    view = selected(EntitiesView(lambda: iter([PERSON]), fragments), "most-stated", "2017")
    (found,) = view.entities()
    assert found.properties["employer"] == (ACME,)
    assert (view.fragments(found), view.notes) == (fragments, ())
    plain = Entity("e", "x", {"born": (Value("1990", ("c",)),)}, ("c",), 1.0, 0)
    view = selected(EntitiesView(lambda: iter([plain])), None, "2017")
    assert list(view.entities()) == [plain]
    assert view.notes == (
        "no value has a time; kbforge cluster --time ATTRIBUTE says when values were stated",
    )
    with pytest.raises(UsageError, match=r'^--at: expected a time such as .*, got "soon"'):
        selected(view, None, "soon")


def times_of(value):
    return value.first, value.last, value.until


def test_values_of_joined_attributes_have_the_times_of_both():
    early = Value("Acme", ("a",), first="2015", last="2019", until="2020")
    late = Value("Acme", ("b",), first="2015-06-01T00:00+02:00", last="2019-11", until="2021-01")
    bare = Value("Acme", ("c",))
    for one, other in ((early, late), (late, early)):
        assert times_of(with_times_of(bare, one, other)) == ("2015", "2019", "2021-01")
    assert with_times_of(early, early, bare) == replace(early, held=spans_of(early))
    assert with_times_of(bare, bare, bare) == bare
    again = Value("Acme", ("d",), first="2022", last="2022")
    both = with_times_of(early, again, early)
    assert times_of(both) == ("2015", "2022", None)
    held = [
        text
        for text in ("2014", "2015", "2019", "2020", "2021", "2022", "2030")
        if holds(both, read_time(text))
    ]
    assert held == ["2015", "2019", "2022", "2030"]


# A value that returns.

RETURNED = [("Acme", "2018"), ("Globex", "2019"), ("Acme", "2020")]


@pytest.mark.parametrize(
    ("at", "employer"), [("2018", "Acme"), ("2019", "Globex"), ("2020", "Acme"), ("2025", "Acme")]
)
def test_a_value_that_returns_did_not_hold_in_between(at, employer):
    entity = entity_of(fragments_of(RETURNED))
    view = EntitiesView(lambda: iter([entity]))
    for policy in (None, "latest", "all"):
        (found,) = selected(view, policy, at).entities()
        assert [value.value for value in found.properties["x"]] == [employer]


def test_a_value_that_returns_says_so_in_json_and_in_words():
    acme, globex = entity_of(fragments_of(RETURNED)).properties["x"]
    assert orjson.loads(orjson.dumps(acme.to_json())) == {
        "value": "Acme",
        "fragments": ["f0", "f2"],
        "count": 2,
        "first": "2018",
        "last": "2020",
        "held": [{"stated": ["2018"], "until": "2019"}, {"stated": ["2020"]}],
    }
    assert when(acme, (acme, globex)) == "2018, until 2019, then Globex; 2020"
    assert when(globex, (acme, globex)) == "2019, until 2020, then Acme"


def test_the_latest_of_several_values_at_a_time_is_the_latest_by_then():
    entity = entity_of(
        fragments_of([("a", "2015"), ("a", "2020"), ("b", "2017"), ("c", "2014")]), several={"x"}
    )
    view = EntitiesView(lambda: iter([entity]))
    found = {}
    for at in ("2014", "2016", "2018", "2020"):
        (one,) = selected(view, "latest", at).entities()
        found[at] = one.properties["x"][0].value
    assert found == {"2014": "c", "2016": "a", "2018": "b", "2020": "a"}


def test_a_policy_s_dates_after_the_time_do_not_count():
    fragments = [
        Fragment(f"f{n}", {"x": (value,)}, metadata={"d": date})
        for n, (value, date) in enumerate([("a", "2015"), ("a", "2020"), ("b", "2017")])
    ]
    values = (Value("a", ("f0", "f1")), Value("b", ("f2",)))
    entity = Entity("e", "n", {"x": values}, ("f0", "f1", "f2"), 1.0, 0)
    for at, value in ((None, "a"), ("2018", "b")):
        policy = Policy("latest", date=("metadata", "d"), at=at and read_time(at))
        view = GoldenView(EntitiesView(lambda: iter([entity]), fragments), policy)
        (found,) = view.entities()
        assert [one.value for one in found.properties["x"]] == [value]


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (Value("x", ("a",), first="2012", last="2012", until="2012"), "until 2012"),
        (Value("x", ("a",), first="2010", last="2012", until="2012"), "2010 until 2012"),
        (Value("x", ("a",), first="2012", last="2012"), "2012"),
    ],
)
def test_no_time_is_said_twice(one, said):
    assert when(one, (one,)) == said


def test_a_name_does_not_end() -> None:
    """Another name is a spelling or an alias; what else is stated ends as before."""
    stated = [("Helena Brandt", "Leeds", "1995"), ("H. Brandt", "York", "2003")]
    fragments = [
        Fragment(f"f{n}", {"name": (name,), "town": (town,), "seen": (time,)})
        for n, (name, town, time) in enumerate(stated)
    ]
    values = entity_of(fragments).properties
    assert {one.value: one.until for one in values["name"]} == {
        "Helena Brandt": None,
        "H. Brandt": None,
    }
    assert {one.value: one.until for one in values["town"]} == {"Leeds": "2003", "York": None}
