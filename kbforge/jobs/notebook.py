"""A progress bar for notebooks.

rich needs ipywidgets to draw in a notebook; this bar is an HTML element, which needs nothing.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from html import escape
from importlib import import_module
from typing import Any

from kbforge.contracts import OnStage, OnStep, Progress, Stage
from kbforge.errors import lasting

_PAUSE = 0.2  # seconds between two drawings
_SECONDS_TO_TELL = 5.0  # before the time that is left is known well enough


def in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel, so that `display` reaches a page."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


@contextlib.contextmanager
def followed(on_step: OnStep | None) -> Iterator[tuple[OnStep | None, OnStage | None]]:
    """The callback of a run: `on_step` itself or, in a notebook without one, a bar."""
    if on_step is not None or not in_notebook():
        yield on_step, None
        return
    page = import_module("IPython.display")
    handle = page.display(page.HTML(_html("preparing")), display_id=True)
    try:
        yield _bar(handle, page.HTML)
    finally:
        handle.update(page.HTML(""))


def _bar(handle: Any, html: Any) -> tuple[OnStep, OnStage]:
    shown = began = 0.0
    first = 0

    def on_stage(stage: Stage) -> None:
        handle.update(html(_html(f"{stage.doing} ({stage.number} of {stage.of})")))

    def on_step(progress: Progress) -> None:
        nonlocal shown, began, first
        rounds, now = progress.rounds, time.monotonic()
        done = progress.fragments if rounds is None else rounds.done
        total = progress.total if rounds is None else rounds.most
        if not began:
            began, first = now, done  # the stages before say nothing about the speed
        if now - shown < _PAUSE:
            return
        shown = now
        text = f"clustering, {done:,}"
        if total is not None:
            text += f" of {total:,} {'fragments' if rounds is None else 'rounds'}"
            if now - began > _SECONDS_TO_TELL and done > first:
                left = (now - began) / (done - first) * (total - done)
                text += f", {lasting(left)} left"
        handle.update(html(_html(text, done, total)))

    on_step.seldom = True  # type: ignore[attr-defined]
    return on_step, on_stage


def _html(text: str, done: int = 0, total: int | None = None) -> str:
    filled = "" if total is None else f' value="{done}" max="{total}"'
    return f"<div><progress{filled}></progress> <small>{escape(text)}</small></div>"
