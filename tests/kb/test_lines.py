"""Lines that the kernel writes are those of the definitions, byte for byte."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment, Posterior, Provenance
from kbforge.files.columns import FragmentColumns
from kbforge.files.lines import read_columns
from kbforge.kb import entities as module
from kbforge.kb.consensus import consensus
from kbforge.kb.entities import Corpus, described, entity_lines, name_of, with_made
from tests.assembled import assemble
from tests.jsonl import write_lines
from tests.kb import oracle
from tests.kb.posteriors import packed, plain_fragments, posterior, posteriors, subproblem

TEXTS = st.text(alphabet='aAbé"\\/\n\t\b\f\r\v\x01\x1f\x7f\ud7ff𝒜,. ', min_size=1, max_size=5)
SPELLINGS = st.text(alphabet="aAbs1.,-@'\t ", min_size=1, max_size=9) | st.sampled_from(
    ["Ray, Bob", "Bob Ray", "BOB RAY", "B. Ray", "bob@ray.de", "+1,5", "1.5", "s. a.", "x" * 1001]
)
VALUES = st.lists(TEXTS | SPELLINGS, min_size=1, max_size=3).map(tuple)
NAMES = st.sampled_from(["name", "first name", "surname", "town", 'a"b', "x"])
MADE = Provenance("1", "attributes", 2.0, 0)


def columns_of(fragments) -> FragmentColumns:
    with TemporaryDirectory() as folder:
        found = read_columns(
            str(write_lines(Path(folder) / "f.jsonl", map(Fragment.to_json, fragments)))
        )
    assert isinstance(found, FragmentColumns)
    return found


def assert_alike(fragments, found: Posterior, most: int | None, calibrated=None) -> None:
    columns = columns_of(fragments)
    corpus = Corpus.of(columns.statements)
    entities = list(oracle.assemble(fragments, found, most, calibrated, corpus, MADE))
    expected = b"".join(entity.to_line() for entity in entities)
    given_ones = [(columns, found), (fragments, found)]
    if all(subproblem.estimate is None for subproblem in found.subproblems):
        given_ones.append((columns, replace(found, subproblems=packed(found.subproblems))))
    for of, told in given_ones:
        parts = list(with_made(entity_lines(of, told, most, calibrated), MADE))
        assert b"".join(lines for _, lines in parts) == expected
        assert sum(count for count, _ in parts) == len(expected.splitlines())
        assert list(assemble(of, told, most, calibrated, corpus=corpus)) == entities


@st.composite
def fragments(draw, n: int) -> list[Fragment]:
    ids = draw(st.lists(TEXTS, min_size=n, max_size=n, unique=True))
    vector = st.none() | st.tuples(st.floats(-9, 9), st.just(1e300))
    return [
        Fragment(
            name,
            draw(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4)),
            draw(vector),
            metadata=draw(st.none() | st.just({"a": 1})),
        )
        for name in ids
    ]


@given(st.data(), posteriors(), st.sampled_from([None, 0, 1, 3]), st.booleans())
def test_lines_are_those_of_the_entities(data, found, most, is_calibrated):
    sure = {cluster[0]: 1 / (2 + cluster[0]) for cluster in found.clusters()}
    given_ones = data.draw(fragments(found.n_fragments))
    assert_alike(given_ones, found, most, sure if is_calibrated else None)


@given(st.data(), posteriors(), st.sampled_from([None, 3]))
def test_lines_of_another_estimate_are_those_of_the_entities(data, found, most):
    given_ones = data.draw(fragments(found.n_fragments))
    assert_alike(given_ones, consensus(found, "binder"), most)
    whole = [replace(s, estimate=(s.fragments,)) for s in found.subproblems]
    assert_alike(given_ones, replace(found, subproblems=tuple(whole)), most)


@given(st.data(), st.booleans())
def test_spellings_in_ascii_are_chosen_as_others(data, is_known):
    n = data.draw(st.integers(1, 40))
    values = st.lists(SPELLINGS, min_size=1, max_size=2).map(tuple)
    stated = st.dictionaries(NAMES, values, min_size=1)
    columns = columns_of([Fragment(str(k), data.draw(stated)) for k in range(n)])
    corpus = Corpus.of(columns.statements)
    corpus = corpus if is_known else replace(corpus, words=None)
    found = posterior(subproblem(range(n), (1, [tuple(range(n))])))
    assert [*assemble(columns, found, 0, corpus=corpus)] == [
        *oracle.assemble(columns, found, 0, None, corpus)
    ]


@pytest.mark.parametrize("mark", ["", "é"])  # the kernel chooses, or Python
def test_the_best_of_more_spellings_than_are_compared(mark):
    names = [f"{first}{letter} smithers{mark}" for first in "abcdefg" for letter in "hijklmn"]
    stated = [{"name": (name,), "town": (name * 20,)} for name in (*names, *names[3:])]
    found = posterior(subproblem(range(len(stated)), (1, [tuple(range(len(stated)))])))
    assert_alike([Fragment(str(k), one) for k, one in enumerate(stated)], found, 0)


@pytest.mark.parametrize("workers", ["1", "3"])
def test_lines_do_not_depend_on_the_number_of_threads(monkeypatch, workers):
    monkeypatch.setattr(module, "_AT_ONCE", 1)
    monkeypatch.setenv("KBFORGE_WORKERS", workers)
    blocks = [subproblem([k, k + 1], (2, [(k, k + 1)]), (1, [(k,), (k + 1,)])) for k in (0, 2, 4)]
    assert_alike(plain_fragments(6), posterior(*blocks), 3)


@given(st.data())
def test_a_fragment_alone_has_the_name_of_its_entity(data):
    (one,) = data.draw(fragments(1))
    assert name_of(one) == described([one]).name


@pytest.mark.parametrize("at_once", [1, 3])
def test_parts_are_those_of_the_whole(monkeypatch, at_once):
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    blocks = [subproblem([k, k + 1], (2, [(k, k + 1)]), (1, [(k,), (k + 1,)])) for k in (0, 2, 4)]
    assert_alike(plain_fragments(6), posterior(*blocks), 3)


def test_all_alternatives_stop_where_their_ids_exceed_a_line(monkeypatch):
    others = (3, [(0, 2), (1,)]), (2, [(0,), (1,), (2,)]), (1, [(0, 1), (2,)])
    block = subproblem(range(3), (6, [(0, 1, 2)]), *others)
    plain = [Fragment(name, {"name": ("A",)}) for name in ("éé", "bb", "cc")]
    for most in (5, 6, 12):
        monkeypatch.setattr(module, "_MOST_CHARACTERS", most)
        assert_alike(plain, posterior(block), None)


def test_a_grouping_that_leaves_a_fragment_out_is_a_fault_of_the_clusterer():
    found = posterior(subproblem([0], (1, [(0,)])))
    short = replace(found, subproblems=packed(found.subproblems), n_fragments=2)
    with pytest.raises(AssertionError, match="not a partition"):
        list(entity_lines(columns_of(plain_fragments(2)), short))
