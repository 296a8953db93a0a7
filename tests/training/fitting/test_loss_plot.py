"""The picture of a run's losses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kbforge_training.fitting.loop import _smoothed, draw_losses


def metrics(path: Path, n: int, held_out_every: int = 5) -> Path:
    lines = []
    for step in range(1, n + 1):
        loss = 20 + 80 / step
        line = {
            "step": step,
            "tokens": 1_000 * step,
            "nats_per_token": loss / 20,
            "nats_per_fragment": loss,
            "dev_nats_per_fragment": None if step % held_out_every else loss + 5,
        }
        lines.append(json.dumps(line) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(("n", "every"), [(1, 1), (1, 2), (4, 5), (500, 50)])
@pytest.mark.parametrize("name", ["loss.png", "loss.svg"])
def test_any_run_can_be_drawn_and_gives_the_same_bytes(
    tmp_path: Path, n: int, every: int, name: str
) -> None:
    pytest.importorskip("matplotlib")
    drawn = []
    for copy in ("a", "b"):
        (tmp_path / copy).mkdir()
        draw_losses(metrics(tmp_path / "m.jsonl", n, every), tmp_path / copy / name)
        drawn.append((tmp_path / copy / name).read_bytes())
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) > 4_000
    if name.endswith("svg"):
        text = drawn[0].decode()
        assert "<!-- nats per fragment -->" in text
        assert "<!-- training sets, smoothed -->" in text
        assert ("<!-- held-out sets -->" in text) == (n >= every)


def test_smoothing_is_the_loss_of_the_window_as_a_whole() -> None:
    rng = np.random.default_rng(0)
    nats, fragments = rng.uniform(1, 9, 300), rng.uniform(1, 5, 300)
    got = _smoothed(nats, fragments)
    for at in (0, 3, 150, 299):
        window = slice(max(0, at - 5), at + 6)
        assert got[at] == pytest.approx(nats[window].sum() / fragments[window].sum())
