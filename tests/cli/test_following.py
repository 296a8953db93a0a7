"""What the bar of a clustering counts and says."""

from __future__ import annotations

import pytest

from kbforge.cli.following import bar_for, figures, following
from kbforge.contracts import Progress, Rounds


def test_the_bar_counts_rounds_and_shows_how_good_it_is() -> None:
    progress = Progress(700, 700, 1, 0.0, 12345, rounds=Rounds(40, 500, 82, -1430.25))
    done, total, fields = figures(progress, 8.0)
    assert (done, total) == (40, 500)
    assert fields == {
        "rounds_per_second": "5.0",
        "clusters": "82",
        "log_posterior": "-1,430.2",
        "model_evaluations": "12,345",
    }
    with bar_for(progress) as bar:
        bar.update(done, **fields)


def test_the_bar_of_an_online_method_counts_fragments() -> None:
    done, total, fields = figures(Progress(350, 700, 31, 12.3, 999), 2.0)
    assert (done, total) == (350, 700)
    assert fields["fragments_per_second"] == "175"


@pytest.mark.parametrize("rounds", [None, Rounds(1, 2, 3, -4.5)])
def test_on_a_terminal_the_bar_is_of_what_is_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rounds: Rounds | None
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    monkeypatch.setenv("TERM", "xterm-256color")
    with following() as on_step:
        on_step(Progress(7, 7, 1, 0.0, 9, rounds=rounds))
    said = capsys.readouterr().err
    assert "preparing" in said
    assert ("7/7" in said, "1/2" in said) == (rounds is None, rounds is not None)
    assert ("fragments/s" in said, "log posterior -4.5" in said) == (
        rounds is None,
        rounds is not None,
    )
