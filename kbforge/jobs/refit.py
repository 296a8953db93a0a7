"""`kbforge refit`: learns a store's models again, or searches for better groupings.

No source is read. Decisions count as answers when likelihood or alpha are chosen from the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kbforge.contracts import Interrupted, Revision
from kbforge.errors import counted
from kbforge.jobs.learn import OnWeighed, learn
from kbforge.jobs.models import chosen
from kbforge.jobs.opening import EventResult, locked, opened, require_all
from kbforge.store.writing import begin

REFITS = "refit"


def refit(path: str, on_step: OnWeighed | None = None) -> EventResult:
    """Learn again from all fragments of a store, and reweight its particles.

    Nothing changes if nothing was written since the last time. `on_step` is called with the number
    of reweighted subproblems and their total.

    Raises:
        KBForgeError: as `prepare`.
        LikelihoodError: no particle of a subproblem is possible any more; nothing has changed.

    """
    began = time.perf_counter()
    with locked(path) as store:
        store.require_made()
        learned, last = learn(store), store.last_run
        already = last is not None and last.verb == REFITS and last.finished
        already = already and learned.facts["frozen"] == store.fact("frozen")
        before = chosen(store)[2]
        if not already:
            learned.write(store, begin(store, REFITS, "", began), True, on_step)
            last = store.last_run
        assert last is not None
        told = {
            "likelihood": learned.prepared.likelihood,
            "alpha_before": before.alpha,
            "alpha": learned.prepared.alpha,
            "size_exponent": learned.prepared.spec.exponent,
            "subproblems": len(store.pages.names()),
            "notes": list(learned.prepared.notes),
            "already": already,
        }
        return EventResult(last.number, store.n_fragments, store.n_entities, told)


def revisit(
    path: str,
    passes: int = 1,
    ids: Sequence[str] | None = None,
    on_step: Callable[[int], None] | None = None,
) -> EventResult:
    """Search for better groupings: cluster neighbouring clusters again.

    Each pass covers all clusters, or these fragments. The result is written at the end, in one
    transaction; if the process is killed, the store is unchanged. `on_step` is called with the
    number of completed steps, and may raise `Interrupted` to end the search.
    """
    about = counted(passes, "pass", "passes") if ids is None else ", ".join(ids)
    with opened(path, "revisit", about) as held:
        if ids is not None:
            require_all(held.store, ids, held.store.pages.numbers(ids))
        steps = 0

        def after_step() -> None:
            nonlocal steps
            steps += 1
            held.writing.followed()
            if on_step is not None:
                on_step(steps)

        try:
            found: Revision | None = held.session.revise(passes, ids, after_step)
        except Interrupted:
            found = None
        held.commit(finished=True)
        if found is None:
            return held.result(steps=steps, complete=False)
        return held.result(steps=steps, changed=found.changed, gain=found.gain, complete=True)
