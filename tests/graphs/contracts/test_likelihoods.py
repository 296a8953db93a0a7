from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kbforge.contracts import Fragment
from kbforge.testing import LikelihoodContract
from kbforge.testing.examples import fragments


class TestMentions(LikelihoodContract):
    """Mentions whose names are compared by all that a graph states."""

    name = "aliases"
    signed: ClassVar = frozenset()

    def fragments(self) -> Sequence[Fragment]:
        said = [
            ("BOB CRATCHIT", "PERSON", ("EBENEZER SCROOGE", "TINY TIM"), "He is the clerk."),
            ("MR. CRATCHIT", "PERSON", ("TINY TIM",), "Known as BOB CRATCHIT."),
            ("MRS. CRATCHIT", "PERSON", ("TINY TIM",), "She is his wife."),
            ("BOB", "PERSON", ("EBENEZER SCROOGE",), ""),
            ("BOB CRATCHIT", "PERSON", ("BOB",), ""),
            ("TINY TIM", "PERSON", (), "The son of Bob Cratchit."),
            ("EBENEZER SCROOGE", "PERSON", ("BOB CRATCHIT",), "The employer."),
            ("SCROOGE", "PERSON", (), "The employer of a clerk."),
            ("SCROOGE", "GEO", (), ""),
        ]
        mentions = []
        for number, (name, kind, neighbours, description) in enumerate(said):
            properties = {"name": (name,), "type": (kind,)}
            if neighbours:
                properties["neighbour"] = neighbours
            if description:
                properties["description"] = (description,)
            mentions.append(Fragment(str(number), properties))
        return [*mentions, *fragments()]
