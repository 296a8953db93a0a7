"""The part of a large file in which pairs are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kbforge.contracts import CandidateIndex, Fragment
from kbforge.fit import sample as part
from kbforge.fit.choose import Chooser
from kbforge.models.resolve import make_likelihood
from kbforge_plugins.indexes.selective import Selective
from tests.people import people


class ByWords(CandidateIndex):
    def keys(self, fragment: Fragment) -> Sequence[int]:
        return [int(word) for values in fragment.properties.values() for word in values]


# fifty bear each name, and five of them agree on everything
BEARERS = [
    Fragment(f"{name}-{k}-{copy}", {"name": (str(name),), "born": (str(1000 + 10 * name + k),)})
    for name in range(40)
    for k in range(10)
    for copy in range(5)
]


def fitted_index(fragments: Sequence[Fragment]) -> Selective:
    index = Selective()
    index.fit(fragments)
    return index


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of hundreds are large."""
    monkeypatch.setattr("kbforge.fit.choose.MOST_COMPARED", 300)
    monkeypatch.setattr("kbforge.fit.choose.MOST_TO_CHOOSE", 400)
    monkeypatch.setattr("kbforge.fit.judge.MOST_FRAGMENTS", 100)
    monkeypatch.setattr(part, "PART", 150)


@pytest.mark.usefixtures("small")
def test_a_very_large_file_is_not_given_to_the_model_of_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fragments = people(150, 3)
    found = Chooser(fragments)
    found.choose()
    assert found.judgement is not None
    assert found.judgement.only("pairs").chosen.likelihood == "pairs"  # it was judged
    monkeypatch.setattr("kbforge.fit.choose.MOST_OF_PAIRS", 400)
    large = Chooser(fragments)
    choice = large.choose()
    assert large.judgement is not None
    judged = [h.likelihood for h in found.judgement.found]
    assert [h.likelihood for h in large.judgement.found] == judged
    allowed = {large.judgement.found[k].likelihood for k in large.judgement.allowed.tolist()}
    assert allowed == {*judged} - {"pairs"}
    assert choice.name != "pairs"
    assert choice.note.endswith("; pairs is not considered above 400 fragments")


@pytest.mark.usefixtures("small")
def test_a_small_file_is_taken_whole() -> None:
    assert len(part.part_of(BEARERS[:150], ByWords()).fragments) == 150


@pytest.mark.usefixtures("small")
def test_those_that_share_most_come_along_and_so_do_others_of_a_common_name() -> None:
    found = part.part_of(BEARERS, ByWords())
    assert [BEARERS[i] for i in found.places] == list(found.fragments)
    assert 150 <= len(found.fragments) < 191
    seeds, held = found.fragments[: found.seeds], {f.id for f in found.fragments}
    for seed in seeds:
        assert {f.id for f in BEARERS if f.properties == seed.properties} <= held
        strangers = {
            f.id for f in BEARERS if f.names == seed.names and f.properties != seed.properties
        }
        assert len(strangers & held) >= 8


@pytest.mark.usefixtures("small")
def test_order_and_ids_do_not_matter() -> None:
    renamed = [replace(f, id=f"x{k}") for k, f in enumerate(reversed(BEARERS))]
    one, other = (part.part_of(some, ByWords()) for some in (BEARERS, renamed))
    assert [f.properties for f in one.fragments] == [f.properties for f in other.fragments]


@pytest.mark.usefixtures("small")
def test_a_large_file_is_judged_by_its_part_and_doubt_hears_of_no_pairs() -> None:
    fragments = people(150, 3)
    assert len(fragments) > 400
    chosen = Chooser(fragments)
    chosen.choose()
    assert chosen.judgement is not None
    assert chosen.judgement.of == len(fragments)
    places = chosen.judgement.sample.places
    of_part = part.part_of(fragments, fitted_index(fragments))
    assert {*places} <= {*of_part.places}
    assert [fragments[i] for i in places] == list(chosen.judgement.sample.fragments)
    assert chosen.context("attributes", chosen.fitted["attributes"]).pairs is None
    pairs = make_likelihood("pairs", {})
    pairs.fit(fragments)
    assert chosen.context("pairs", pairs).pairs is pairs


@pytest.mark.usefixtures("small")
def test_a_choice_takes_a_larger_file_whole() -> None:
    fragments = people(150, 3)[:350]
    chosen = Chooser(fragments)
    chosen.choose()
    attributes = chosen.fitted["attributes"]
    assert chosen.context("attributes", attributes).pairs is not None
    named = Chooser(fragments, named=True)
    assert named.alpha("attributes", attributes) is not None
    assert named.judgement is not None
    of_part = part.part_of(fragments, fitted_index(fragments))
    assert {*named.judgement.sample.places} <= {*of_part.places}
    assert named.context("attributes", attributes).pairs is None
