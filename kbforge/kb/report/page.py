"""The report as one page of HTML: nothing is loaded, nothing runs, and it prints.

The template is `page.html` beside this module, with autoescape on. All text from data passes the
filter `text`: it loses what a terminal or a page would obey, and stands in a <bdi>, so that no
right-to-left name turns the numbers beside it around.
"""

from __future__ import annotations

import time
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from kbforge.errors import quoted
from kbforge.kb.report.facts import ConfidenceBand, Facts, SizeBand
from kbforge.version import __version__
from kbforge.words import counted, percent

if TYPE_CHECKING:
    from jinja2 import Template

_CHARACTERS = 400


def report_html(facts: Facts) -> str:
    """The page of a knowledge base; the same facts give the same page."""
    shares = [share for share in facts.confidences if share.entities]
    pairs = facts.pairs if facts.pairs is not None and facts.pairs.count else None
    lists = facts.lists
    return _template().render(
        facts=facts,
        version=__version__,
        tiles=_tiles(facts),
        sizes=[(_size(band), band.entities) for band in facts.sizes],
        intervals=[(_interval(share), share.entities) for share in facts.confidences],
        shares=shares,
        known=sum(share.known for share in shares),
        right=sum(share.right for share in shares),
        expected=sum(share.stated_known * share.known for share in shares),
        labelled=[(s.stated_known, s.right / s.known, s.known) for s in shares if s.known],
        pairs=pairs,
        answered=[] if pairs is None else [(b.reported, b.share, b.count) for b in pairs.table],
        orders=(
            ("by-size", "largest first", lists.by_size),
            ("by-doubt", "least certain first", lists.by_doubt),
            ("by-name", "by name", lists.by_name),
        ),
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def text(value: object, bare: bool = False) -> str:
        shown = quoted(value, _CHARACTERS)
        return shown if bare else Markup("<bdi>{}</bdi>").format(shown)

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters |= {
        "counted": counted,
        "exactly": lambda probability: f"{probability * 100:.1f} %",
        "interval": _interval,
        "moment": _moment,
        "percent": percent,
        "text": text,
    }
    page = resources.files("kbforge.kb.report").joinpath("page.html")
    return environment.from_string(page.read_text(encoding="utf-8"))


def _tiles(facts: Facts) -> list[tuple[str, str]]:
    found = [
        (f"{facts.entities:,}", "entity" if facts.entities == 1 else "entities"),
        (f"{facts.fragments:,}", "fragment" if facts.fragments == 1 else "fragments"),
        (f"{facts.stated:,.0f}", "entities expected to be right"),
        (f"{facts.entities - facts.unrivalled:,}", "with another possible grouping"),
    ]
    return found if facts.drift is None else [*found, (f"{facts.drift.figure:.2f}", "drift")]


def _size(band: SizeBand) -> str:
    if band.high is None:
        return f"{band.low:,} and more"
    return f"{band.low:,}" if band.high == band.low else f"{band.low:,} to {band.high:,}"


def _interval(share: ConfidenceBand) -> str:
    return f"{share.low * 100:.0f} to {share.high * 100:.0f} %"


def _moment(began: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.gmtime(began))
    except (OverflowError, OSError, ValueError):
        return ""
