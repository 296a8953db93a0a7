"""The errors users see, and the words of sentences for them.

Every error a user can cause is a `KBForgeError`. Its text is one sentence that says what failed,
where, what was expected and what was found and, if there is one, the next command to run. The
command line prints the sentence and exits with `exit_code`; a traceback is always a bug.

The functions write what a sentence names: parameters, values, counts, durations, lists and
probabilities.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_OBEYED = re.compile(r"\r(?!\n)|[^\t\r\n -~]")
_SHOWN = 80  # characters of an offending value that an error quotes
# up to the last @, because a password may be written without %-codes
_PASSWORD = re.compile(r"(?<=://)([^\s/?#@:]*):\S*@|((?:^|[?&\s])(?:ssl)?password=)[^\s&]*", re.I)


Spelling: TypeAlias = Callable[[str, object], str]
"""How an interface spells a parameter and its value ("" if there is none)."""


_OF_A_RUN = (
    *("clusterer", "surrogate", "index", "exact", "particles", "max-evals", "size-exponent"),
    *("calibration", "confidence-map", "labels-from", "rules", "defaults"),
    *("estimate", "alternatives"),
)
_BY_SET = {name: name for name in _OF_A_RUN} | {"on-duplicate": "store.on-duplicate"}
"""Parameters that the command line accepts through --set, under these names."""


def as_option(name: str, value: object) -> str:
    """A parameter on the command line: `--alpha`, `--link source`, `--set index=none`."""
    name = name.replace("_", "-") if "." not in name else name
    by_set = _BY_SET.get(name, name if "." in name else None)
    written = f"--{name} " if by_set is None else f"--set {by_set}="
    said = str(value).lower() if isinstance(value, bool) else value
    return f"{written}{said}" if value != "" else written[:-1]


_spelling: ContextVar[Spelling] = ContextVar("spelling", default=as_option)


def option(name: str, value: object = "") -> str:
    """A parameter in a sentence, in the spelling of the reader's interface.

    `name` is that of the command line, or `kind.option` for an option of a plugin. Errors and notes
    use it to name the parameter at fault, and each interface (Python, API, MCP) has its own
    spelling.
    """
    return _spelling.get()(name, value)


@contextlib.contextmanager
def spelled(spelling: Spelling) -> Iterator[None]:
    """Spell parameters this way in sentences made within the block; also a decorator."""
    before = _spelling.set(spelling)
    try:
        yield
    finally:
        _spelling.reset(before)


class KBForgeError(Exception):
    """An error with a message for the user."""

    exit_code = EXIT_ERROR


class UsageError(KBForgeError):
    """Options or arguments that cannot be honoured."""

    exit_code = EXIT_USAGE


def require_least(least: int, where: str = "", /, **options: int) -> None:
    """Refuse options below a least value with a UsageError that begins with `where`."""
    for name, value in options.items():
        if value < least:
            raise UsageError(f"{where}{name}: expected at least {least}, got {value}")


class DuplicateError(UsageError):
    """A fragment whose id is in the store with different content."""


class ContradictionError(UsageError):
    """Decisions that contradict one another.

    Attributes:
        decisions: the names of the contradicting decisions.

    """

    def __init__(self, message: str, decisions: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.decisions = decisions


class StrangeAttributesError(UsageError):
    """Records most of whose values belong to attributes that a store does not have."""


class NotFoundError(UsageError):
    """An id or number that is not in the knowledge base."""


class PluginError(KBForgeError):
    """A plugin that is missing, ambiguous, incompatible or broken."""


class ModelError(KBForgeError):
    """A model file or bundle that cannot be trusted: missing, truncated, altered or mismatched."""


class OtherModelError(ModelError):
    """A store's learned state that belongs to another model, such as another version's."""


class GrammarError(KBForgeError):
    """A grammar that cannot be read or compiled, or a text that it does not accept."""


class OutputError(KBForgeError):
    """A result that cannot be written: no such folder, no permission, no space."""


class BusyError(OutputError):
    """A request that cannot be served now, but can be repeated.

    Attributes:
        seconds: how long to wait before trying again.

    """

    def __init__(self, message: str, seconds: int = 1) -> None:
        super().__init__(message)
        self.seconds = seconds


class StoreError(KBForgeError):
    """A store that cannot be read: it is missing, is not a store, or is damaged."""


class LikelihoodError(KBForgeError):
    """A likelihood that returned NaN, or that gives a fragment no finite assignment."""


class AnswererError(KBForgeError):
    """A program that answers questions ended, or did not answer as docs/answerers.md says."""


def escaped(text: str) -> str:
    """`text` on one line, without terminal control sequences."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def escaped_lines(text: str) -> str:
    """`text` for a terminal: like `escaped`, but with lines and tabs.

    Escapes are JSON's, so JSON stays equivalent JSON.
    """
    if text.isprintable():
        return text
    return _OBEYED.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    c = match[0]
    if c.isprintable():
        return c
    units = c.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def without_password(text: str) -> str:
    """A text in which the addresses of databases have no passwords."""
    if "://" not in text:
        return text
    return _PASSWORD.sub(lambda found: f"{found[2]}***" if found[2] else f"{found[1]}@", text)


def quoted(value: object, limit: int = _SHOWN) -> str:
    """`value` on one line, escaped for a terminal and cut to `limit` characters; without the
    passwords of databases."""
    text = without_password(value if isinstance(value, str) else repr(value))
    text = escaped(text[: limit + 1])
    return text if len(text) <= limit else text[:limit] + "…"


@dataclass(eq=False)
class BadRecord(KBForgeError):
    """A record of an input that cannot be read."""

    where: str  # `file`, `file:line` or `file:row`, for the user to look up
    expected: str  # what a valid record has there
    got: str  # what this one has, short enough to print
    field: str = ""  # the attribute, column or JSON path at fault, or ""
    advice: str = ""  # how to let the command continue, or ""

    def __str__(self) -> str:
        field = f"{quoted(self.field)}: " if self.field else ""
        advice = f"; {self.advice}" if self.advice else ""
        return f"{quoted(self.where, 400)}: {field}expected {self.expected}, got {self.got}{advice}"


_LONGEST_NAME = 200  # characters; the rest of a longer name is not compared


def percent(probability: float) -> str:
    """A probability as a percentage, never rounded to 0 % or 100 %."""
    if 0.995 <= probability < 1:
        return "over 99 %"
    if 0 < probability < 0.01:
        return "under 1 %"
    return f"{probability:.0%}".replace("%", " %")


_SURE = ((0.95, "almost certain"), (0.8, "very likely"), (0.6, "likely"), (0.4, "uncertain"))


def how_sure(probability: float) -> str:
    """A probability in words, from `almost certain` to `very unlikely`."""
    for least, said in _SURE:
        if probability >= least:
            return said
    return "unlikely" if probability >= 0.2 else "very unlikely"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`3 fragments`, `1 fragment`; give a plural that is not formed with s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def lasting(seconds: float) -> str:
    """A rough duration: `about 40 seconds`, `about 25 minutes`, `about 3 hours`."""
    if seconds < 90:
        return f"about {counted(max(round(seconds), 1), 'second')}"
    if seconds < 5400:
        return f"about {counted(round(seconds / 60), 'minute')}"
    return f"about {counted(round(seconds / 3600), 'hour')}"


def listed(items: Sequence[str], most: int, limit: int = _SHOWN) -> str:
    """The first `most` items, each cut to `limit` characters, and the number of others."""
    shown = ", ".join(quoted(item, limit) for item in items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most:,} more"


_MOST_COLUMNS = 12


def columns_differ(own: str, has: Sequence[str], others: str, have: Sequence[str]) -> str:
    """The columns of two sides, and how to map one to another."""
    mine, theirs = (listed(columns, _MOST_COLUMNS) or "none" for columns in (has, have))
    return (
        f"{own} {mine}, {others} {theirs}; {option('map', 'COLUMN=ATTRIBUTE')} makes two columns "
        "one attribute"
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean "x"?)` if one of the known names resembles a wrong one, else nothing."""
    from difflib import get_close_matches  # only for mistakes

    folded = {one.casefold(): one for one in known}
    close = get_close_matches(name[:_LONGEST_NAME].casefold(), folded, 1)
    return f' (did you mean "{quoted(folded[close[0]])}"?)' if close else ""
