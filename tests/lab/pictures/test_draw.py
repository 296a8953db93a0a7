"""Pictures hold what they should: points, colours, boxes, rings, frames."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kbforge.contracts import Fragment, Posterior, Progress, Rounds
from kbforge.errors import UsageError
from kbforge.pictures import PALETTE, look, require_matplotlib, save
from kbforge_lab.pictures import (
    GroupingView,
    Recorder,
    Scene,
    draw,
    limits,
    scene_of_posterior,
    write_animation,
)
from tests.lab.pictures.test_scene import POINTS, POSTERIOR, subproblem


def collections(axes: Any) -> tuple[Any, Any]:
    """Offsets of the points and of the rings."""
    points, *rings = axes.collections
    return points, rings[0].get_offsets().tolist() if rings else []


def test_every_view_has_its_points_boxes_and_rings():
    figure = draw(scene_of_posterior(POINTS, POSTERIOR, 2))
    one, two = figure.axes
    for axes in (one, two):
        points, _ = collections(axes)
        assert sorted(map(tuple, points.get_offsets().tolist())) == sorted(
            fragment.vector or () for fragment in POINTS
        )
        # a box for each subproblem of several fragments
        assert len(axes.patches) == 2
    assert collections(one)[1] == []
    assert collections(two)[1] == [[11.0, 0.0]]
    assert one.get_title() == "1. 3 entities, probability 54 %"
    assert one.get_xlabel()
    assert one.get_ylabel()


def scene_of(points: Sequence[tuple[float, float]], count: int = 1) -> Scene:
    """So many views of one entity."""
    everyone = tuple(range(len(points)))
    view = GroupingView("1. 12 entities, probability over 99 %", (everyone,), (everyone,))
    return Scene(np.array(points), (view,) * count)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize(
    ("right", "up", "shape"),
    [(1.0, 1.0, (3.8, 3.8)), (100.0, 50.0, (3.8, 3.8 * 60 / 110)), (1.0, 99.0, (2.4, 3.8))],
)
def test_the_page_has_the_shape_of_the_data(right, up, shape, count):
    figure = draw(scene_of([(0, 0), (right, 0), (0, up), (right, up)], count))
    figure.canvas.draw()
    columns, rows = min(count, 3), -(-count // 3)
    width, height = figure.get_size_inches()
    assert width == pytest.approx(columns * shape[0] + (columns - 1) * 0.7 + 1.0, abs=0.05)
    assert height == pytest.approx(rows * shape[1] + (rows - 1) * 0.9 + 1.1, abs=0.05)
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    shown = [axes for axes in figure.axes if axes.axison]
    assert len(shown) == count
    titles = [axes.title.get_window_extent(renderer) for axes in shown]
    for title, axes in zip(titles, shown, strict=True):
        whole = figure.bbox
        for box in (title, axes.get_tightbbox(renderer)):
            assert whole.x0 <= box.x0 < box.x1 <= whole.x1
            assert whole.y0 <= box.y0 < box.y1 <= whole.y1
    assert not any(a.overlaps(b) for a, b in itertools.combinations(titles, 2))
    # every column says what is across
    below = [axes.get_xlabel() for axes in shown[-columns:]]
    assert below == ["first coordinate"] * columns


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "points",
    [
        [(1e15 + i % 3, 1e15 + i // 3) for i in range(12)],
        [(1e15, 1e15)] * 3,
        [(0.0, 0.0)],
        [(3.0, -4.0)] * 2,
        [(5e-324 * i, 0.0) for i in range(3)],
        [(1e9, 0.0), (1e9 + 1e-3, 1e-3)],
    ],
)
def test_points_that_float64_hardly_tells_apart(points, tmp_path):
    save(draw(scene_of(points)), str(tmp_path / "p.png"))
    low, high = limits(np.array(points))
    assert (low < np.min(points, axis=0)).all()
    assert (high > np.max(points, axis=0)).all()


def test_colours_are_those_of_the_clusters():
    figure = draw(scene_of_posterior(POINTS, POSTERIOR, 2))
    one, two = (collections(axes)[0].get_facecolors() for axes in figure.axes)
    assert (one[0] == one[1]).all()
    assert (one[2] == one[3]).all()
    assert len(np.unique(one, axis=0)) == 3
    # fragment 3 stands alone in the second view; the others keep their colours
    assert (two[:3] == one[:3]).all()
    assert not (two[3] == two[2]).all()


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_file_is_what_its_name_says(tmp_path, kind):
    target = tmp_path / f"picture.{kind}"
    save(draw(scene_of_posterior(POINTS, POSTERIOR)), str(target))
    head = {"png": b"\x89PNG", "svg": b"<?xml"}[kind]
    assert target.read_bytes().startswith(head)


def test_another_name_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"\.png or \.svg"):
        save(draw(scene_of_posterior(POINTS, POSTERIOR)), str(tmp_path / "picture.jpg"))


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r": pip install .*\[bench\]'$"):
        require_matplotlib()


def test_the_settings_of_the_program_stay_as_they_are(tmp_path):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    figure = draw(scene_of_posterior(POINTS, POSTERIOR))
    save(figure, str(tmp_path / "p.svg"))
    recorder = Recorder(POINTS, 2)
    recorder.finish(POSTERIOR)
    write_animation(POINTS, recorder.frames, str(tmp_path / "film.gif"))
    assert dict(mpl.rcParams) == before
    # and the pictures have their own
    assert not figure.axes[0].spines["top"].get_visible()
    with look():
        assert mpl.rcParams["legend.frameon"] is False


def test_an_animation_has_its_frames_and_ends_with_all(tmp_path):
    from PIL import Image

    recorder = Recorder(POINTS, 3)
    for n in range(1, 6):
        recorder(Progress(n, 5, 1, 0.0, 0, lambda: POSTERIOR))
    recorder.finish(POSTERIOR)
    assert [frame.newest for frame in recorder.frames] == [0, 2, 4]
    target = tmp_path / "film.gif"
    write_animation(POINTS, recorder.frames, str(target))
    with Image.open(target) as film:
        assert film.n_frames == 3
        assert film.info["loop"] == 0
        first = np.asarray(film.convert("RGB"))
        film.seek(2)
        last = np.asarray(film.convert("RGB"))
    assert (first != last).any()
    # background stays white
    assert (last[0, 0] == 255).all()


def test_a_film_has_the_shape_of_its_points(tmp_path):
    from PIL import Image

    points = [
        Fragment(f"p{i}", {}, vector=(float(i), float(y))) for i, y in enumerate((0, 2, 1, 0, 1))
    ]
    recorder = Recorder(points, 2)
    recorder.finish(POSTERIOR)
    write_animation(points, recorder.frames, str(tmp_path / "film.gif"))
    with Image.open(tmp_path / "film.gif") as film:
        # 4.2 inches wide, 2.4 / 4.4 of that high, and a title
        assert film.size == (462, pytest.approx(110 * (4.2 * 2.4 / 4.4 + 0.45), abs=1))


def test_a_film_keeps_the_colours_that_its_end_lacks(tmp_path):
    from PIL import Image

    apart = Posterior(tuple(subproblem((i,), (1.0, [(i,)])) for i in range(5)), -9.0, 5, 1)
    together = Posterior((subproblem(tuple(range(5)), (1.0, [tuple(range(5))])),), -1.0, 5, 1)
    recorder = Recorder(POINTS, 9)
    recorder(Progress(5, 5, 1, 0.0, 0, lambda: apart, Rounds(1, 9, 5, -9.0)))
    recorder(Progress(5, 5, 1, 0.0, 0, lambda: together, Rounds(2, 9, 1, -1.0)))
    recorder.finish(together)
    write_animation(POINTS, recorder.frames, str(tmp_path / "film.gif"))
    with Image.open(tmp_path / "film.gif") as film:
        seen = np.unique(np.asarray(film.convert("RGB")).reshape(-1, 3), axis=0).astype(int)
    for colour in PALETTE[:5]:
        wanted = list(bytes.fromhex(colour[1:]))
        assert np.abs(seen - wanted).sum(axis=1).min() < 12


# Which states of a run become frames, and what stands above them.


APART = Posterior(tuple(subproblem((i,), (1.0, [(i,)])) for i in range(5)), -9.0, 5, 1)


def after(rounds: int, posterior: Posterior = APART) -> Progress:
    found = Rounds(rounds, None, len(posterior.clusters()), posterior.log_posterior)
    return Progress(5, 5, 1, 0.0, 0, lambda: posterior, found)


def numbers(recorder: Recorder) -> list[str]:
    """What the titles say of the rounds."""
    return [frame.view.title.split(":")[0] for frame in recorder.frames]


def test_frames_of_fragments_show_the_newest_and_say_what_they_stand_for():
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


def test_frames_of_rounds_end_on_the_result():
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
def test_however_many_rounds_the_frames_are_few_and_even(count, rounds):
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


def test_a_run_without_a_step_is_its_result():
    recorder = Recorder(POINTS, 3)
    recorder.finish(POSTERIOR)
    assert numbers(recorder) == ["the end"]


@pytest.mark.parametrize("rounds", [None, Rounds(1, 2, 3, -4.0)])
def test_a_clusterer_that_hides_its_states_makes_no_film(rounds):
    with pytest.raises(UsageError, match="no film"):
        Recorder(POINTS, 3)(Progress(1, 5, 1, 0.0, 0, rounds=rounds))
