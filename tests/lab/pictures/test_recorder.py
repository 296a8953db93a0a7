"""Which states of a run become frames, and what stands above them."""

from __future__ import annotations

import pytest

from kbforge.contracts import Posterior, Progress, Rounds
from kbforge.errors import UsageError
from kbforge_lab.pictures import Recorder
from tests.lab.pictures.test_scene import POINTS, POSTERIOR, subproblem

APART = Posterior(tuple(subproblem((i,), (1.0, [(i,)])) for i in range(5)), -9.0, 5, 1)


def after(rounds: int, posterior: Posterior = APART) -> Progress:
    found = Rounds(rounds, None, len(posterior.clusters()), posterior.log_posterior)
    return Progress(5, 5, 1, 0.0, 0, lambda: posterior, found)


def numbers(recorder: Recorder) -> list[str]:
    """What the titles say of the rounds."""
    return [frame.view.title.split(":")[0] for frame in recorder.frames]


def test_frames_of_fragments_show_the_newest_and_say_what_they_stand_for() -> None:
    recorder = Recorder(POINTS, 3)
    for n in range(1, 6):
        recorder(Progress(n, 5, 2, 3.0, 0, lambda: POSTERIOR))
    recorder.finish(POSTERIOR)
    assert [frame.newest for frame in recorder.frames] == [0, 2, 4]
    assert recorder.frames[1].view.title == (
        "3 of 5 fragments: 3 entities\n2 subproblems stand for $10^{3}$ groupings"
    )
    recorder = Recorder(POINTS, 3)
    alone = Posterior((subproblem((0,), (1.0, [(0,)])),), -1.0, 1, 1)
    recorder(Progress(1, 5, 1, 0.0, 0, lambda: alone))
    assert recorder.frames[0].view.title == (
        "1 of 5 fragments: 1 entity\n1 subproblem stands for $10^{0}$ groupings"
    )


def test_frames_of_rounds_end_on_the_result() -> None:
    recorder = Recorder(POINTS, 9)
    for n in range(1, 4):
        recorder(after(n))
        recorder(after(n, POSTERIOR))  # within the next round: by the clock
    recorder.finish(POSTERIOR)
    assert [frame.view.title for frame in recorder.frames] == [
        "after 1 round: 5 entities\nlog posterior -9.0 nats",
        "after 2 rounds: 5 entities\nlog posterior -9.0 nats",
        "the end, after 3 rounds: 3 entities\nlog posterior -1.0 nats",
    ]
    assert {frame.newest for frame in recorder.frames} == {None}
    assert recorder.frames[-1].view.clusters == ((0, 1), (2, 3), (4,))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 7, 8, 9, 16, 63, 64, 65, 1000])
def test_however_many_rounds_the_frames_are_few_and_even(count: int, rounds: int) -> None:
    recorder = Recorder(POINTS, count)
    for n in range(1, rounds + 1):
        recorder(after(n))
    recorder.finish(POSTERIOR)
    assert min(rounds, count // 2 + 1) <= len(recorder.frames) <= count
    said = numbers(recorder)
    assert said[-1] == f"the end, after {rounds:,} round{'s' if rounds > 1 else ''}"
    kept = [int(title.split()[1].replace(",", "")) for title in said[:-1]]
    assert kept == [1 + i * (kept[1] - 1 if len(kept) > 1 else 1) for i in range(len(kept))]
    assert not kept or kept[-1] < rounds


def test_a_run_without_a_step_is_its_result() -> None:
    recorder = Recorder(POINTS, 3)
    recorder.finish(POSTERIOR)
    assert numbers(recorder) == ["the end"]


@pytest.mark.parametrize("rounds", [None, Rounds(1, 2, 3, -4.0)])
def test_a_clusterer_that_hides_its_states_makes_no_film(rounds: Rounds | None) -> None:
    with pytest.raises(UsageError, match="no film"):
        Recorder(POINTS, 3)(Progress(1, 5, 1, 0.0, 0, rounds=rounds))
