"""Templates, filters, style and script that reports and pages share.

`components.html` has the macros: charts, tables, meters, waterfalls. `style.css` styles all of
them, and `table.js` sorts and filters their tables. Text from data passes through the filter
`text`, which removes control characters and wraps the text in <bdi>, so that no right-to-left name
reverses the numbers beside it. No element has a style attribute, so a page may forbid them.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping
from heapq import nlargest
from importlib import resources
from typing import TYPE_CHECKING

from kbforge.errors import counted, percent, quoted

if TYPE_CHECKING:
    from jinja2 import Environment

_CHARACTERS = 400  # of a text from data
_MOST_BARS = 24  # of a waterfall


def environment(package: str | None = None) -> Environment:
    """Templates of these components, and of the folder `templates` of a package."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def text(value: object, bare: bool = False, most: int = _CHARACTERS) -> str:
        shown = quoted(value, most)
        return shown if bare else Markup("<bdi>{}</bdi>").format(shown)

    loaders = [PackageLoader("kbforge.kb", "")]
    if package is not None:
        loaders.insert(0, PackageLoader(package))
    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=ChoiceLoader(loaders),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "counted": counted,
        "chief": chief,
        "exactly": lambda probability: f"{probability * 100:.1f} %",
        "moment": moment,
        "nats": lambda nats: f"{nats:+,.2f}",
        "percent": percent,
        "source": source_hash,
        "text": text,
    }
    return made


def chief(attributes: Mapping[str, float], most: int = _MOST_BARS) -> list[tuple[str, float]]:
    """Contributions of attributes, in order; if there are many, the largest and the sum of the
    rest."""
    if len(attributes) <= most:
        return list(attributes.items())
    first = set(nlargest(most - 1, attributes, key=lambda name: abs(attributes[name])))
    rest = sum(nats for name, nats in attributes.items() if name not in first)
    shown = [(name, nats) for name, nats in attributes.items() if name in first]
    return [*shown, (f"{len(attributes) - len(first):,} others", rest)]


def part(name: str) -> str:
    """The text of `style.css` or `table.js`, safe within its element."""
    from markupsafe import Markup

    return Markup(resources.files("kbforge.kb").joinpath(name).read_text(encoding="utf-8"))


def source_hash(text: str) -> str:
    """The hash by which a Content-Security-Policy allows this style or script."""
    digest = hashlib.sha256(str(text).encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def moment(seconds: float) -> str:
    """A time in UTC, to the minute, from seconds since 1970; "" if it is out of range."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))
    except (OverflowError, OSError, ValueError):
        return ""
