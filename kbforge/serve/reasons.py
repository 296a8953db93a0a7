"""Explains matches, places of fragments, and why two entities are separate.

Totals and explanations are in nats (`unit`), or in points of a score if the likelihood gives scores
and no probabilities.
"""

from __future__ import annotations

from kbforge.contracts import Explanation, Fragment
from kbforge.fit.choices import Fit
from kbforge.fit.review import without_label
from kbforge.jobs import explain
from kbforge.jobs.match import match as matched
from kbforge.serve.facts import Facts, references
from kbforge.serve.helpers import aside
from kbforge.serve.readers import Readers


@aside
def match(readers: Readers, fragment: Fragment, most: int = 10) -> Facts:
    """The entities that a fragment would join; it is not kept.

    {"candidates": [{"entity", "probability", "reported", "total", "explanation"}], "new": the
    probability that it is none of the known entities, "compared": clusters}. Raises as
    `kbforge.jobs.match.match`.
    """
    with readers.store() as store:
        fit = readers.models(store)[0]
        with readers.scoring:
            found = matched(store, fit, fragment, most, readers.clusters)
        entities = references(readers, store, [one.entity for one in found.candidates])
        candidates = [
            {
                "entity": entity,
                "probability": one.probability,
                "reported": one.reported,
                "total": one.total,
                "explanation": _said(one.explanation),
            }
            for entity, one in zip(entities, found.candidates, strict=True)
        ]
        return {
            "candidates": candidates,
            "new": found.new,
            "compared": found.compared,
            **_unit(fit),
        }


@aside
def why(readers: Readers, fragment: str, rivals: int = 5) -> Facts:
    """Why a fragment is in its entity, and what speaks for its being in others.

    {"fragment", "own": a reason, "rivals": [reasons]} with reasons {"entity", "others": fragments
    it has besides, "total", "explanation"}. Raises as `kbforge.jobs.explain.why`.
    """
    with readers.store() as store:
        fit = readers.models(store)[0]
        with readers.scoring:
            places = explain.why(store, fit, fragment, rivals)
        found = store.fragment(fragment)
        assert found is not None, "it was read at the same moment"
        own, *others = [
            {
                "entity": entity,
                "others": place.others,
                "total": place.total,
                "explanation": _said(place.explanation),
            }
            for entity, place in zip(
                references(readers, store, [place.entity for place in places]), places, strict=True
            )
        ]
        return {"fragment": without_label(found[1]), "own": own, "rivals": others, **_unit(fit)}


@aside
def compare(readers: Readers, first: str, second: str) -> Facts:
    """Why two entities are not one.

    {"first", "second", "compared": [fragments of each], "total", "explanation", "together",
    "mixed", "values": {attribute: {"both", "first", "second"}}}; see
    `kbforge.jobs.explain.Comparison`. Raises as `kbforge.jobs.explain.compare`.
    """
    with readers.store() as store:
        fit = readers.models(store)[0]
        with readers.scoring:
            found = explain.compare(store, fit, first, second)
        one, two = references(readers, store, [found.first, found.second])
        return {
            "first": one,
            "second": two,
            "compared": list(found.compared),
            "total": found.total,
            "explanation": _said(found.explanation),
            "together": found.together,
            "mixed": found.mixed,
            "values": {
                attribute: dict(zip(("both", "first", "second"), map(list, values), strict=True))
                for attribute, values in found.values.items()
            },
            **_unit(fit),
        }


def _said(explanation: Explanation | None) -> Facts | None:
    return None if explanation is None else explanation.to_json()


def _unit(fit: Fit) -> Facts:
    """The likelihood, and what its numbers are in."""
    unit = "nats" if fit.problem.likelihood.probability else "points"
    return {"likelihood": fit.likelihood, "unit": unit}
