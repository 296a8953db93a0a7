"""The report of a store: what it tells is what the store says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.decide import StoreReview, decide, decisions_of, reviewed
from kbforge.jobs.explain import Explainer
from kbforge.jobs.models import Drift
from kbforge.jobs.refit import revisit
from kbforge.jobs.remove import erase, remove
from kbforge.jobs.report import report, status_of
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge.store.changes import changes
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.people import people

PEOPLE = people(60, 5, error=0.5)


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, PEOPLE[:100], RunOptions(likelihood="attributes"), about="first.jsonl")
    add_fragments(path, PEOPLE, RunOptions(), about="all.jsonl")
    return path


def test_it_tells_what_the_store_says(store: str) -> None:
    facts = report(store).facts
    entities, status = list(entities_of(store)), status_of(store)
    assert (facts.entities, facts.fragments) == (len(entities), len(PEOPLE))
    assert facts.stated == pytest.approx(sum(e.confidence for e in entities))
    assert facts.title == "kb.sqlite"
    assert [run.number for run in facts.runs] == [2, 1]
    assert facts.runs == tuple(reversed(status.runs))
    assert facts.drift is not None
    assert facts.drift[0] == status.drift
    chosen = dict(facts.chosen)
    assert chosen["likelihood"] == "attributes, as asked for"
    assert chosen["alpha"] == f"{status.alpha:,.6g}, as suits the data"
    assert chosen["learned from"] == f"100 fragments; {len(PEOPLE) - 100} fragments came since"
    assert chosen["why"] == status.chosen[0]
    with Database(store) as database:
        kinds = [change.kind for change in changes(Store(database), 1)]
    assert dict(facts.kinds) == {kind: kinds.count(kind) for kind in kinds}


def test_labels_are_read_where_they_are_asked_for(store: str) -> None:
    assert not any(share.known for share in report(store).facts.confidences)
    facts = report(store, labels=True).facts
    people_of = {x.label: {y.id for y in PEOPLE if y.label == x.label} for x in PEOPLE}
    right = sum(set(e.fragments) in people_of.values() for e in entities_of(store))
    assert sum(share.known for share in facts.confidences) == facts.entities
    assert sum(share.right for share in facts.confidences) == right
    assert 0 < right < facts.entities


def test_uncertain_entities_have_the_reasons_that_explain_gives(store: str) -> None:
    explainer = Explainer(store, RunOptions())
    shared = [one for one in report(store).facts.doubtful if len(one.fragments) > 1]
    assert shared
    for one in shared:
        assert one.explanations is not None
        ((least, why),) = one.explanations.items()
        totals = {}
        for id in one.fragments:
            found = explainer.reasons(id, 0)[0].explanation
            assert found is not None
            totals[id] = found.total
        assert why.total == pytest.approx(min(totals.values()))
        assert totals[least] == pytest.approx(why.total)


def deny(review: StoreReview) -> None:
    evidence = review.question()
    assert evidence is not None
    review.answer(evidence, False)


def test_answers_and_decisions_are_told(store: str) -> None:
    with reviewed(store) as review:
        for _ in range(4):
            deny(review)
        review.undo()
    facts = report(store).facts
    assert facts.pairs is not None
    assert facts.pairs.count == 3
    assert (facts.n_same, facts.n_different, facts.n_undone) == (0, 3, 1)
    assert facts.runs[0].verb == "review"
    assert "pairs by answers" in report(store).html


def test_the_same_store_gives_the_same_page(store: str) -> None:
    assert report(store).html == report(store).html
    assert report(store, title="<b>").html.count("&lt;b&gt;") == 2


def test_while_it_is_written_it_can_be_told(store: str) -> None:
    with reviewed(store) as review:
        deny(review)
        page = report(store)
        assert page.facts.fragments == len(PEOPLE)
    assert not page.facts.runs[0].finished


def test_a_drift_is_told_with_what_drifts(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, PEOPLE[:100], RunOptions(likelihood="attributes", alpha=30.0))
    assert report(path).facts.drift == (0.0, "no fragment has come since the models learned")
    rare = {f"{name} of nobody": ("never seen",) for name in PEOPLE[0].properties}
    add_fragments(path, [Fragment("alone", rare)], RunOptions(), accepted=rare)
    told = "1 fragment came since the models learned: too few to compare"
    assert (status_of(path).drift, report(path).facts.drift) == (0.0, (0.0, told))
    named = (x for x in PEOPLE[100:] if "name" in x.properties)
    bare = [Fragment(x.id, {"name": x.properties["name"]}) for x in named]
    add_fragments(path, bare, RunOptions())
    drift = report(path).facts.drift
    assert drift is not None
    figure, told = drift
    assert figure > 0.5
    assert "kbforge refit is worth it; most in " in told
    assert "born" in told


def test_what_is_gone_drifts_no_longer(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    learned, came = PEOPLE[:80], PEOPLE[80:]
    add_fragments(path, learned, RunOptions(likelihood="attributes", alpha=30.0))
    with Database(path) as database:
        expected = Drift.of(Store(database))
    add_fragments(path, came, RunOptions())
    named = [x for x in PEOPLE[75:85] if "name" in x.properties]
    others = [Fragment(x.id, {"name": ("nobody",)}) for x in named]
    add_fragments(path, others, RunOptions(), on_duplicate="replace")
    remove(path, [x.id for x in (*learned[:5], *came[-5:])])
    left = [*others, *(x for x in came[:-5] if x not in named)]
    for number, x in enumerate(left):
        expected.add(x, number)
    with Database(path) as database:
        drift = Drift.of(Store(database))
    assert (drift.came, drift.since, drift.figures) == (
        len(left),
        expected.since,
        expected.figures,
    )
    assert drift.figure > 0
    remove(path, [x.id for x in left])
    assert (status_of(path).came_since, status_of(path).drift) == (0, 0.0)
    assert report(path).facts.drift == (0.0, "no fragment has come since the models learned")
    add_fragments(path, came[-5:], RunOptions())
    assert status_of(path).came_since == 5


def test_a_store_without_fragments_is_told_and_an_erased_one_is_empty(store: str) -> None:
    decide(store, decisions_of([("different", PEOPLE[0].id, PEOPLE[1].id)]))
    revisit(store)
    remove(store, [fragment.id for fragment in PEOPLE])
    facts = report(store, labels=True).facts
    assert (facts.entities, facts.fragments, facts.n_runs) == (0, 0, 5)
    add_fragments(store, PEOPLE[:5], RunOptions())
    erase(store, [fragment.id for fragment in PEOPLE[:5]])
    for tell in (report, status_of, entities_of):
        with pytest.raises(UsageError, match="is empty: kbforge cluster --into"):
            tell(store)
