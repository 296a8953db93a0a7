"""Where in a text a surface form is, when the stated offset may be wrong."""

from __future__ import annotations


def nearest(text: str, form: str, start: int) -> int | None:
    """The start of the occurrence of `form` nearest to `start`; of two equally near, the earlier.

    None if the form does not occur, or is empty.
    """
    if not form:
        return None
    if text.startswith(form, start):
        return start
    before = text.rfind(form, 0, start + len(form))
    after = text.find(form, start)
    if before < 0 or after < 0:
        found = max(before, after)
        return found if found >= 0 else None
    return before if start - before <= after - start else after
