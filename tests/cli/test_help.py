"""Help pages fit: one line a verb, at most sixteen options, and two screens for the longest."""

from __future__ import annotations

import re

import pytest
import typer

from kbforge import registry
from kbforge.cli.main import _PANELS, app
from kbforge.cli.options import OF_A_RUN
from tests.registry.distributions import kbforge

VERBS = [verb for verbs in _PANELS.values() for verb in verbs]
INSTALLED = [verb for verb in VERBS if verb in registry.names("commands")]
LONGEST = 58  # characters that a terminal of 80 columns shows beside the longest name of a verb
MOST = 16  # options on a page, with --help
SCREENS = 2 * 60  # lines


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
def test_a_page_lists_at_most_sixteen_options(verb: str) -> None:
    assert 0 < len(options(kbforge(verb, "--help", COLUMNS="200").out)) <= MOST


def test_the_page_of_cluster_has_two_screens_and_explains_what_set_takes() -> None:
    page = kbforge("cluster", "--help", COLUMNS="100").out
    assert len(page.splitlines()) <= SCREENS
    assert [name for name in OF_A_RUN if f" {name}={OF_A_RUN[name].value}: " not in page] == []
