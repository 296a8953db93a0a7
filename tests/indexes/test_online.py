"""Insert, remove, part and merge: what an index leads to follows, for each kind of key."""

import random
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from kbforge import registry
from kbforge.contracts import (
    CandidateIndex,
    Decision,
    Fate,
    Fragment,
    Likelihood,
    ModelSpec,
    Session,
)
from kbforge.indexes.ngrams import Ngrams
from kbforge.indexes.projection import Projection
from kbforge_plugins.clusterers.sequential import SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.installed import BIGRAM

_LETTERS = "abcdefghijklmnoprstuvw"


def names(entities: int = 12) -> list[Fragment]:
    """Three spellings each of names that are far from each other."""
    rng = random.Random(4)
    out = []
    for entity in range(entities):
        name = "".join(rng.choices(_LETTERS, k=16))
        for k in range(3):
            at = rng.randrange(len(name))
            said = name[:at] + rng.choice(_LETTERS) + name[at + 1 :]
            out.append(Fragment(f"{entity}-{k}", {"name": (f"{said} of {name[:5]}",)}))
    rng.shuffle(out)
    return out


def points(entities: int = 12) -> list[Fragment]:
    """Three points each around places that are far from each other."""
    rng = np.random.default_rng(4)
    centres = rng.normal(0, 60, (entities, 3))
    out = [
        Fragment(f"{entity}-{k}", {}, tuple((centre + rng.normal(0, 0.5, 3)).tolist()))
        for entity, centre in enumerate(centres)
        for k in range(3)
    ]
    random.Random(4).shuffle(out)
    return out


Case = tuple[Callable[[], CandidateIndex], Callable[[], Likelihood], float]
CASES: dict[str, Case] = {
    **{name: (Ngrams, partial(registry.create, "likelihoods", name), 1e6) for name in BIGRAM},
    "projection": (Projection, Gaussian, 1.0),
}


def opened(case: Case) -> tuple[Session, list[Fragment]]:
    make, likelihood_of, alpha = case
    fragments = points() if likelihood_of is Gaussian else names()
    index, likelihood = make(), likelihood_of()
    index.fit(fragments)
    likelihood.fit(fragments)
    spec = ModelSpec(likelihood, alpha, index=index)
    return SplitSmc().open(spec, np.random.default_rng(0)), fragments


def groups(session: Session) -> set[frozenset[str]]:
    """The entities of the most probable grouping, by their fragments' ids."""
    there = session.fragments
    return {
        frozenset(there[i].id for i in cluster)
        for estimate in session.posterior().estimates()
        for cluster in estimate
    }


def gold(fragments: Sequence[Fragment]) -> set[frozenset[str]]:
    by_entity: dict[str, set[str]] = {}
    for fragment in fragments:
        by_entity.setdefault(fragment.id.split("-")[0], set()).add(fragment.id)
    return {frozenset(ids) for ids in by_entity.values()}


@pytest.mark.parametrize("case", CASES)
def test_what_goes_and_comes_again_is_where_it_was(case):
    check_going_and_coming(CASES[case])


def check_going_and_coming(case: Case) -> None:
    session, fragments = opened(case)
    session.add(fragments)
    assert groups(session) == gold(fragments)
    gone = [f for f in fragments if f.id[-1] == "1" or f.id.startswith(("3-", "5-"))]
    session.remove([f.id for f in gone])
    left = [f for f in fragments if f not in gone]
    assert groups(session) == gold(left)
    session.add(gone)
    assert groups(session) == gold(fragments)


@pytest.mark.parametrize("case", CASES)
def test_what_was_one_by_decision_and_parted_again(case):
    check_parting(CASES[case])


def check_parting(case: Case) -> None:
    """A third fragment finds the two as one, and later each of them."""
    session, fragments = opened(case)
    thirds = [f for f in fragments if f.id in ("1-2", "2-2")]
    rest = [f for f in fragments if f not in thirds]
    session.add(rest)
    merged = Decision(True, "1-0", "2-0")
    session.constrain([merged])
    both = frozenset({"1-0", "1-1", "2-0", "2-1"})
    found = groups(session)
    assert any(both & one >= {"1-0", "2-0"} for one in found)
    session.lift([merged])
    session.constrain([Decision(False, "1-0", "2-0")])
    session.revise(ids=["1-0", "1-1", "2-0", "2-1"])
    session.add(thirds)
    assert groups(session) == gold(fragments)


@pytest.mark.parametrize("case", CASES)
def test_an_entity_that_has_gone_leads_nowhere(case):
    check_gone(CASES[case])


def check_gone(case: Case) -> None:
    session, fragments = opened(case)
    session.add(fragments)
    session.remove([f.id for f in fragments if f.id.startswith("7-")])
    (step,) = session.add([f for f in fragments if f.id == "7-1"])
    assert step.fate is Fate.OPENED
    assert frozenset({"7-1"}) in groups(session)
