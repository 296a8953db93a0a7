"""What holds of a session after every step, checked on its pages."""

from __future__ import annotations

import math

import numpy as np

from kbforge.clustering.regroup import fragments_of, rows_of, terms_of
from kbforge.clustering.session import SmcSession
from kbforge.contracts import Session
from tests.clustering.exact import log_sum_exp


def check_session(session: Session) -> None:
    """Of all that it has here: each fragment once on every particle, distinct particles, weights.

    A fragment is at home where it is, and a session that has all of it knows how many particles
    there are.
    """
    assert isinstance(session, SmcSession)
    state = session._state
    pages = state.pages(state.run.names().tolist())
    seen: list[int] = []
    for page in pages:
        rows = rows_of(page)
        held = fragments_of(rows[0])
        assert held[0] == page.name
        assert all(fragments_of(row) == held for row in rows)
        assert all(list(row) == sorted(row) for row in rows)
        assert len(set(rows)) == len(rows), "two particles are the same"
        assert abs(math.fsum(np.exp(page.weights)) - 1) < 1e-9
        assert (np.diff(page.weights) <= 0).all()
        assert set(page.cells.tolist()) == set(range(len(page.slots)))
        assert state.run.homes(held) == [page.name] * len(held)
        seen += held
    assert sorted(seen) == [number for number, _ in state.here()], (
        "a fragment is lost or twice there"
    )
    if state.source is None:
        known = state.run.totals()
        assert known.subproblems == len(pages)
        taken = [slot for page in pages for slot in page.slots.tolist()]
        assert sorted([*taken, *known.free]) == list(range(known.slots))
        effective = sum(math.log10(len(page.rows)) for page in pages)
        assert abs(effective - known.log10_effective) < 1e-9


def mass(session: Session) -> float:
    """Log of the sum of the target densities of all groupings that are held."""
    assert isinstance(session, SmcSession)
    state, total = session._state, 0.0
    for page in state.pages(state.run.names().tolist()):
        term = terms_of(page, state.prior)
        total += log_sum_exp(sum(term[cluster] for cluster in row) for row in rows_of(page))
    return total
