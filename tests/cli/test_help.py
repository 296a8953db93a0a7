"""Help pages fit: one line a verb, a dozen options, the others by `--help-all`."""

from __future__ import annotations

import re

import pytest
import typer

from kbforge import registry
from kbforge.cli.main import _PANELS, app
from tests.registry.distributions import kbforge

VERBS = [verb for verbs in _PANELS.values() for verb in verbs]
INSTALLED = [verb for verb in VERBS if verb in registry.names("commands")]
LONGEST = 58  # characters that a terminal of 80 columns shows beside the longest name of a verb
MOST = 13  # options on a page, with --help and --help-all


def options(page: str) -> list[str]:
    """The long options that a page lists."""
    return re.findall(r"^│ +(--[a-z-]+) ", page, re.MULTILINE)


def test_each_verb_has_one_line_in_its_panel() -> None:
    page = kbforge("--help", COLUMNS="80").out
    for title, verbs in _PANELS.items():
        panel = page[page.index(f"─ {title} ─") :]
        panel = panel[: panel.index("╰")]
        for verb in set(verbs) & set(INSTALLED):
            assert re.search(rf"^│ {verb} ", panel, re.MULTILINE)
    command = typer.main.get_command(app)
    context = typer.Context(command)
    lines = {verb: command.get_command(context, verb).get_short_help_str(200) for verb in INSTALLED}
    assert {verb: line for verb, line in lines.items() if len(line) > LONGEST} == {}


@pytest.mark.parametrize("verb", sorted(set(INSTALLED) - {"plugins", "lab"}))
def test_a_page_lists_a_dozen_options_and_help_all_the_others(verb: str) -> None:
    shown = options(kbforge(verb, "--help", COLUMNS="200").out)
    assert 0 < len(shown) <= MOST
    everything = kbforge(verb, "--help-all", COLUMNS="200").out
    if "--help-all" not in shown:
        assert options(everything) == shown
        return
    assert set(shown) < set(options(everything))
    assert "─ Further options ─" in everything
