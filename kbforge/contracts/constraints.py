"""Constraints: decisions about pairs of fragments, and a linking attribute.

A decision says of two fragments that they are one entity (a must-link) or that they are not (a
cannot-link). Must-links close transitively: what is one with one of two that are one is one with
both, and what is not one with the one is not with the other. A decision may name fragments that
have not come yet, or have gone.

`link` names an attribute of which no entity holds a value twice, as when two tables are linked and
no two records of one table are one entity.

Particles are conditioned on constraints: a grouping that violates one has no weight.
"""

from __future__ import annotations

from dataclasses import dataclass

from kbforge.contracts.fragment import Fragment


@dataclass(frozen=True, slots=True)
class Decision:
    """What is decided of two fragments.

    Attributes:
        same: whether they are one entity.
        first: the id of the one.
        second: the id of the other.
        name: what messages call the decision, such as "decision 7"; may be "".

    """

    same: bool
    first: str
    second: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Constraints:
    """All that groupings must satisfy.

    Attributes:
        decisions: of pairs, in any order.
        link: an attribute, or "source" for where a fragment is from: two fragments that share a
            value of it are not one entity. None is no such rule.

    """

    decisions: tuple[Decision, ...] = ()
    link: str | None = None

    def stated(self, fragment: Fragment) -> tuple[str, ...]:
        """The fragment's values of `link`: it is apart from all others that have one of them."""
        if self.link is None:
            return ()
        values = fragment.properties.get(self.link)
        if values is None and self.link == "source" and fragment.source is not None:
            return (fragment.source,)
        return tuple(dict.fromkeys(values or ()))

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.decisions) or self.link is not None
