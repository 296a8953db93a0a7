"""Helpers: processes that answer for a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbforge.contracts import Fragment
from kbforge.errors import NotFoundError
from kbforge_serve import reasons
from kbforge_serve.helpers import Helpers
from kbforge_serve.listing import listing
from kbforge_serve.neighbourhood import neighbourhood
from kbforge_serve.readers import Readers


@pytest.fixture(scope="module")
def helped(made_store: Path) -> Iterator[Readers]:
    """Readers with one helper."""
    made = Readers(str(made_store))
    made.helpers = Helpers(str(made_store), 1)
    yield made
    made.close()


def test_a_helper_says_what_the_server_would(helped: Readers, made_store: Path) -> None:
    alone = Readers(str(made_store))
    (entity, *_) = listing(alone).entities
    new = Fragment("new", {"name": ("Abc Defgh",)})
    assert reasons.match(helped, new) == reasons.match(alone, new)
    assert reasons.match(helped, new, most=2) == reasons.match(alone, new, 2)
    assert neighbourhood(helped, entity.id) == neighbourhood(alone, entity.id)
    assert helped.helpers is not None
    assert helped._fit is None, "the server itself needed no models"
    alone.close()


def test_errors_come_back_as_they_were(helped: Readers) -> None:
    with pytest.raises(NotFoundError, match='no fragment "nobody"'):
        reasons.why(helped, "nobody")
    with pytest.raises(NotFoundError, match="entity"):
        neighbourhood(helped, "e-nothing")


def test_the_server_answers_itself_when_a_helper_was_killed(made_store: Path) -> None:
    readers = Readers(str(made_store))
    readers.helpers = Helpers(str(made_store), 1)
    new = Fragment("new", {"name": ("Abc Defgh",)})
    expected = reasons.match(readers, new)
    for process in readers.helpers.processes:
        process.kill()
    assert reasons.match(readers, new) == expected
    assert readers.helpers is None
    readers.close()
