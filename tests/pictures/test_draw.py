"""Pictures hold what they should: points, colours, boxes, rings, frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbforge.contracts import Progress
from kbforge.errors import UsageError
from kbforge.pictures.animation import write_animation
from kbforge.pictures.canvas import require_matplotlib, save
from kbforge.pictures.draw import draw
from kbforge.pictures.recorder import Recorder
from kbforge.pictures.scene import scene_of_posterior
from tests.pictures.test_scene import POINTS, POSTERIOR


def collections(axes: Any) -> tuple[Any, Any]:
    """Offsets of the points and of the rings."""
    points, *rings = axes.collections
    return points, rings[0].get_offsets().tolist() if rings else []


def test_every_view_has_its_points_boxes_and_rings() -> None:
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


def test_colours_are_those_of_the_clusters() -> None:
    figure = draw(scene_of_posterior(POINTS, POSTERIOR, 2))
    one, two = (collections(axes)[0].get_facecolors() for axes in figure.axes)
    assert (one[0] == one[1]).all()
    assert (one[2] == one[3]).all()
    assert len(np.unique(one, axis=0)) == 3
    # fragment 3 stands alone in the second view; the others keep their colours
    assert (two[:3] == one[:3]).all()
    assert not (two[3] == two[2]).all()


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_file_is_what_its_name_says(tmp_path: Path, kind: str) -> None:
    target = tmp_path / f"picture.{kind}"
    save(draw(scene_of_posterior(POINTS, POSTERIOR)), str(target))
    head = {"png": b"\x89PNG", "svg": b"<?xml"}[kind]
    assert target.read_bytes().startswith(head)


def test_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.png or \.svg"):
        save(draw(scene_of_posterior(POINTS, POSTERIOR)), str(tmp_path / "picture.jpg"))


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"kbforge\[bench\]"):
        require_matplotlib()


def test_an_animation_has_its_frames_and_ends_with_all(tmp_path: Path) -> None:
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
