"""What an act would do is what it does, and a rehearsal leaves no trace."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbforge.errors import ContradictionError, UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge_serve.effects import Effect, observed
from kbforge_serve.service import Service
from kbforge_serve.writer import Act, Written, honouring, undoing
from tests.people import people
from tests.store.dump import dump

PEOPLE = people(120, 8)
FIRST, MORE = PEOPLE[:80], PEOPLE[80:]
IDS = [one.id for one in FIRST]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "kb.sqlite"
    add_fragments(str(path), FIRST, RunOptions(likelihood="attributes", alpha=30.0))
    return path


@pytest.fixture
def served(path: str) -> Iterator[Service]:
    made = Service(path)
    yield made
    made.close()


def effect(service: Service, act: Act[Written], rehearse: bool) -> Effect:
    watched = observed(service.readers, act, IDS[:2])
    return service.writer.perform(watched, rehearse).result(30)[1]


def test_a_rehearsal_leaves_no_trace(served: Service, path: str) -> None:
    before = dump(path)
    would = effect(served, honouring(True, IDS[0], IDS[40]), True)
    assert dump(path) == before
    assert would.n_moved > 0
    assert effect(served, honouring(True, IDS[0], IDS[40]), False) == would
    assert dump(path) != before
    back = effect(served, undoing(1), True)
    assert (back.before, back.after) == (would.after, would.before)
    assert effect(served, undoing(1), False).after == back.after


def test_what_is_refused_in_a_rehearsal_is_refused_alike(served: Service, path: str) -> None:
    served.writer.honour(True, IDS[0], IDS[40]).result(30)
    before = dump(path)
    for rehearse in (True, False):
        with pytest.raises(ContradictionError):
            effect(served, honouring(False, IDS[0], IDS[40]), rehearse)
        with pytest.raises(UsageError):
            effect(served, undoing(9), rehearse)
    assert dump(path) == before
    assert effect(served, honouring(True, IDS[0], IDS[40]), True).run is None


def test_additions_go_on_after_a_rehearsal(served: Service, base: Path, tmp_path: Path) -> None:
    """The run of additions ends before, and the numbers of what is added are as without."""
    other = Service(str(shutil.copy(base, tmp_path / "other.sqlite")))
    try:
        for service, rehearses in ((served, True), (other, False)):
            service.writer.add(MORE[:10]).result(30)
            if rehearses:
                effect(service, honouring(True, IDS[0], MORE[0].id), True)
            service.writer.add(MORE[10:]).result(30)
    finally:
        other.close()
    served.close()
    groups = [
        {line for line in dump(one.readers.path) if line.startswith(("page", "fragment", "entity"))}
        for one in (served, other)
    ]
    assert groups[0] == groups[1]
    assert not [line for line in dump(served.readers.path) if line.startswith("decision")]


@settings(
    deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_what_an_act_would_do_is_what_it_does(
    base: Path, tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "kb.sqlite"
    shutil.copy(base, path)
    service = Service(str(path))
    try:
        for _ in range(4):
            first, second = data.draw(st.permutations(IDS[::8]))[:2]
            act = honouring(data.draw(st.booleans()), first, second)
            try:
                would = effect(service, act, True)
            except ContradictionError:
                continue
            done, did = service.writer.perform(observed(service.readers, act, IDS[:2])).result(30)
            assert did == would
            if data.draw(st.booleans()):
                undo = undoing(done.decision)
                assert effect(service, undo, True) == effect(service, undo, False)
    finally:
        service.close()
        for left in tmp_path.glob("kb.sqlite*"):
            left.unlink()
