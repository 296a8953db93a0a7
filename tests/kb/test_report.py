"""The report: sums that are right, nothing loaded or obeyed, and a size that does not grow."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Alternative, Entity, Explanation, Fragment, Value
from kbforge.contracts.entity import Change, DecisionRecord, Kind, Run
from kbforge.evaluation.reliability import Bin, Reliability
from kbforge.kb import report
from kbforge.kb.components import source_hash
from kbforge.kb.entities import described
from kbforge.kb.report import (
    MOST,
    MOST_LINES,
    History,
    gather,
    report_html,
)
from kbforge.kb.view import EntitiesView
from tests.profile import examples

HOSTILE = (
    "</style></title><script>alert(1)</script>",
    "\u202eevil\u2066",
    'a" onmouseover="x" \x00\x1b[2J',
    "שלום עולם",
    "\ud800",
    "https://example.org/x.js",
    "v" * 1_000_000,
)


def entity(n, size=1, confidence=1.0, calibrated=None, text="name", alternatives=()):
    ids = tuple(f"{n}-{k}" for k in range(size))
    return Entity(
        f"e{n}",
        text,
        {"name": (Value(text, ids),)},
        ids,
        confidence if calibrated is None else calibrated,
        n,
        alternatives,
        reported=None if calibrated is None else confidence,
    )


def view_of(entities, fragments=None):
    return EntitiesView(lambda: iter(entities), fragments)


class Page(HTMLParser):
    """Tags, attributes and text of a page; every tag that has an end is ended."""

    EMPTY = ("meta", "rect", "line")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def full(text: str, n: int = 60) -> str:
    """A page with everything on it, all of it saying one text."""
    other = Alternative(0.25, ((text,), (f"{text}2", "0-0")))
    why = {"0-0": Explanation(1.0, {text: -2.0})}
    entities = [
        replace(entity(k, 3, 0.5, text=text, alternatives=(other,) * 9), explanations=why)
        for k in range(n)
    ]
    entities += [Entity(text, text, {text: (Value(text, (text,)),)}, (text,), 0.3, n)]
    past = History(
        runs=[Run(k + 1, text, text, k < 3, k, 0, k, 1.5, 1e300 if k else 0.0) for k in range(n)],
        changes=[Change(text, Kind.SPLIT, (text,), (), (text,) * 50) for _ in range(n)],
        decisions=[DecisionRecord(k, k % 2 == 0, text, text, 1, None) for k in range(n)],
        drift=(0.3, text),
        pairs=Reliability(4, 15, (Bin(0.4, 0.5, 4, 0.45, 0.5),), 0.1, 0.2),
    )
    return report_html(gather(view_of(entities), text, [(text, text)], past))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_text_is_text_whatever_it_says(text):
    page = full(text)
    read, plain = Page(page), Page(full("name"))
    assert [tag for tag, _ in read.seen] == [tag for tag, _ in plain.seen]
    for tag, attributes in read.seen:
        assert not {"onmouseover", "src"} & attributes.keys(), tag
        assert str(attributes.get("href", "#"))[0] == "#", tag  # nowhere but on the page
    assert page.encode()
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069]", page)
    assert len(page) < 500_000


def test_a_right_to_left_name_stays_as_it_is():
    assert "<bdi>שלום עולם</bdi>" in full("שלום עולם")


def test_nothing_is_loaded_and_only_its_own_script_runs():
    page = full("name")
    tags = [tag for tag, _ in Page(page).seen]
    assert not {*tags} & {"link", "img", "iframe", "object", "base", "form"}
    assert tags.count("script") == 1
    script = page[page.index("<script>") + 8 : page.index("</script>")]
    (policy,) = (a["content"] for _, a in Page(page).seen if "http-equiv" in a)
    assert re.fullmatch(r"default-src 'none'; style-src '(\S+)'; script-src '(\S+)'", str(policy))
    assert source_hash(script) in str(policy)
    assert not re.search(r"url\(|@import|https?:|\bfetch\b|import\(", page)


def test_a_large_knowledge_base_makes_no_larger_page():
    entities = (entity(n, 1 + n % 7, 1 - n % 100 / 200, text=f"name {n}") for n in range(100_000))
    facts = gather(EntitiesView(lambda: entities), "large.jsonl")
    assert facts.entities == 100_000
    assert facts.fragments == sum(1 + n % 7 for n in range(100_000))
    assert len(facts.doubtful) == MOST
    assert len(report_html(facts)) < 500_000


def test_sums_are_right():
    sizes = [1, 1, 1, 2, 4, 5, 9, 10, 19, 150, 1_000]
    stated = [1.0, 0.0, 0.1, 0.095, 0.5, 0.89, 0.9, 0.985, 0.99, 0.999, 1.0]
    entities = [entity(n, s, c) for n, (s, c) in enumerate(zip(sizes, stated, strict=True))]
    facts = gather(view_of(entities), "kb")
    assert facts.entities == len(sizes)
    assert facts.fragments == sum(sizes)
    counts = [3, 1, 0, 1, 2, 2, 0, 0, 1, 1]
    bands = ["1", "2", "3", "4", "5 to 9", "10 to 19", "20 to 49", "50 to 99"]
    assert facts.sizes == tuple(zip([*bands, "100 to 999", "1,000 and more"], counts, strict=True))
    assert facts.stated == pytest.approx(sum(stated))
    assert sum(share.entities for share in facts.confidences) == len(sizes)
    assert facts.confidences[0].entities == 2
    assert facts.confidences[1].entities == 1
    assert facts.confidences[-1].entities == 4
    assert facts.confidences[-1].stated == pytest.approx((1 + 0.99 + 0.999 + 1) / 4)
    assert facts.unrivalled == 2
    assert not facts.calibrated
    page = report_html(facts)
    assert f"<b>{facts.fragments:,}</b>fragments" in page


def test_the_calibrated_confidence_is_what_is_stated():
    facts = gather(view_of([entity(0, 2, 1.0, 0.6), entity(1, 1, 1.0, 0.9)]), "kb")
    assert facts.calibrated
    assert facts.stated == pytest.approx(1.5)
    assert [one.confidence for one in facts.doubtful] == [0.6, 0.9]


def test_labels_tell_how_many_are_right():
    labels = {
        "0-0": "a",
        "0-1": "a",  # right
        "1-0": "b",  # half of it
        "2-0": "b",
        "2-1": "c",  # two in one
        "3-0": "d",
        "3-1": None,  # nobody knows
    }
    entities = [entity(0, 2, 0.9), entity(1, 1, 0.9), entity(2, 2, 0.4), entity(3, 2, 0.9)]
    fragments = [Fragment(id, {"name": ("x",)}, label=label) for id, label in labels.items()]
    facts = gather(view_of(entities, fragments), "kb", labels=True)
    known = {share.low: (share.known, share.right) for share in facts.confidences if share.known}
    assert known == {0.4: (1, 0), 0.9: (2, 1)}
    page = Page(report_html(facts)).text
    assert "Of 3 entities whose fragments all have labels, 1 (33 %) are right; 2 (73 %)" in page
    assert gather(view_of(entities, fragments), "kb").confidences[9].known == 0


def test_the_past_is_told_the_latest_and_the_biggest_first():
    runs = [Run(k, "cluster", f"file {k}", True, k, 0, k, 0.5, 86_400.0 * k) for k in range(1, 41)]
    changes = [
        Change(f"c{k}", Kind.CHANGED, ("a",), ("a", *(f"x{m}" for m in range(k))), ())
        for k in range(1, 31)
    ]
    changes.append(Change("gone", Kind.REMOVED, ("b",), (), ()))
    decisions = [
        DecisionRecord(k, k % 3 == 0, f"f{k}", "g", 1, 2 if k % 5 == 0 else None)
        for k in range(1, 31)
    ]
    facts = gather(view_of([entity(0)]), "kb", past=History(runs, changes, decisions))
    assert [run.number for run in facts.runs] == list(range(40, 40 - MOST_LINES, -1))
    assert (facts.n_runs, facts.seconds) == (40, 20.0)
    assert [one.entity for one in facts.changes] == [f"c{k}" for k in range(30, 30 - MOST, -1)]
    assert facts.kinds == ((Kind.CHANGED, 30), (Kind.REMOVED, 1))
    assert (facts.n_same, facts.n_different, facts.n_undone) == (8, 16, 6)
    assert [one.number for one in facts.decisions][:3] == [29, 28, 27]
    told = Page(report_html(facts)).text
    assert "40 runs, 20.0 seconds in all. The last 20 are listed." in told
    assert "8 same and 16 different are in force, 6 undone. The last 20 are listed." in told
    assert "1970-02-10 00:00" in told


@pytest.mark.parametrize("entities", [[], [entity(0)]])
def test_little_is_told_of_little(entities):
    page = report_html(gather(view_of(entities), "kb"))
    told = Page(page).text
    for absent in ("Runs", "Decisions", "Changes", "How it was made", "Review these first"):
        assert absent not in told
    assert page == report_html(gather(view_of(entities), "kb"))


def stating(n, *rows, confidence=0.5, alternatives=()):
    """An entity of fragments that state these properties."""
    fragments = [
        Fragment(f"{n}-{k}", {a: (v,) for a, v in row.items()}) for k, row in enumerate(rows)
    ]
    return Entity(
        f"e{n}",
        described(fragments).name,
        described(fragments).properties,
        tuple(one.id for one in fragments),
        confidence,
        n,
        alternatives,
    )


ANN = stating(
    0,
    {"surname": "Lee", "name": "Ann Lee", "born": "1900"},
    {"surname": "Lee", "name": "Ann Lee", "born": "1901", "town": "Rome"},
    alternatives=(Alternative(0.4, (("0-0",), ("0-1", "1-0"))),),
)
BOB = stating(1, {"surname": "Ray", "name": "Bob Ray", "town": "Oslo"}, confidence=0.9)


def test_the_page_says_what_conflicts_in_words_and_in_the_order_of_the_file():
    facts = gather(view_of([ANN, BOB]), "kb")
    (born,) = facts.conflicts
    assert born == ("born", 1, 1, "Ann Lee", ("1900", "1901"))
    assert list(facts.doubtful[0].properties) == ["surname", "name", "born", "town"]
    told = Page(report_html(facts)).text
    assert "Ann Lee: 1900; 1901" in told


def test_a_value_that_all_fragments_share_is_no_conflict():
    shared = Entity(
        "e", "n", {"author": (Value("A", ("1", "2")), Value("B", ("1",)))}, ("1", "2"), 1.0, 0
    )
    assert gather(view_of([shared]), "kb").conflicts == ()


def test_other_groupings_and_decisions_name_what_they_speak_of():
    past = History(
        runs=[Run(1, "cluster", "f", True, 3, 0, 2, 0.5, 0.0)],
        changes=[Change("e1", Kind.CHANGED, ("1-0",), (), ("e0", "gone"))],
        decisions=[DecisionRecord(1, False, "0-0", "1-0", 1, None)],
    )
    facts = gather(view_of([ANN, BOB]), "kb", past=past)
    assert facts.doubtful[0].alternatives == ANN.alternatives
    page = report_html(facts)
    assert '<li class="other"><bdi>Bob Ray</bdi> <small><bdi>1-0</bdi></small></li>' in page
    assert "<bdi>Bob Ray</bdi> <small><bdi>1-0</bdi></small>" in page
    assert "<bdi>Ann Lee</bdi> <small><bdi>e0</bdi></small>, <bdi>gone</bdi>" in page
    once = gather(view_of([ANN, BOB]), "kb", past=past, again=False)
    assert "<li><bdi>0-0</bdi></li>" in report_html(once)


def test_the_largest_entities_are_listed_first():
    zoe = stating(2, {"name": "zoe"}, {"name": "zoe"}, {"name": "zoe"}, confidence=0.8)
    facts = gather(view_of([BOB, ANN, zoe]), "kb")
    assert [name for name, *_ in facts.listed] == ["zoe", "Ann Lee", "Bob Ray"]
    assert facts.listed[1][1] == ("Lee", "1900", "Rome")
    assert "All 3, the largest first." in Page(report_html(facts)).text


@given(
    st.lists(
        st.tuples(st.sampled_from("aAbBcC"), st.integers(1, 3), st.sampled_from([0.1, 0.5, 0.9])),
        max_size=30,
    ),
    st.integers(1, 6),
)
@examples(50)
def test_the_largest_the_least_certain_and_the_first_by_name_are_listed_once(drawn, most):
    entities = [entity(n, size, c, text=name) for n, (name, size, c) in enumerate(drawn)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "MOST_LISTED", most)
        facts = gather(view_of(entities), "kb")
    expected = [
        *sorted(entities, key=lambda e: -len(e.fragments))[:most],
        *sorted(entities, key=lambda e: e.confidence)[:most],
        *sorted(entities, key=lambda e: (e.name.casefold(), e.name))[:most],
    ]
    told = [(name, size, confidence) for name, _, size, confidence in facts.listed]
    once = {e.id: (e.name, len(e.fragments), e.confidence) for e in expected}
    assert told == list(once.values())


def test_the_fragment_that_fits_least_is_explained():
    why = {
        "0-0": Explanation(1.0, {"name": 3.0, "born": -1.5}),
        "0-1": Explanation(1.0, {f"attribute {k}": 0.01 * k - 0.2 for k in range(20)}),
    }
    for facts in (
        gather(view_of([replace(ANN, explanations=why)]), "kb"),
        gather(view_of([ANN]), "kb", explain=lambda _: why),
    ):
        ((fragment, reason),) = (facts.doubtful[0].explanations or {}).items()
        assert fragment == "0-1"
        assert reason.total == pytest.approx(why["0-1"].total)
        assert len(reason.attributes) == 13
        page = Page(report_html(facts)).text
        assert "Why the fragment 0-1 is here" in page
        assert f"total{why['0-1'].total:+.2f}" in page
    assert "Why" not in Page(report_html(gather(view_of([ANN]), "kb"))).text
