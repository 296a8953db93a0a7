"""Random sequences of what clients write, through the API, against a model that only counts links.

The model knows which decisions hold, not how fragments are grouped: what contradicts is refused,
what holds is so in every grouping, what is undone right away is as before, and the audit has all
of it, by name.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import orjson
import pytest
from starlette.testclient import TestClient

from kbforge.contracts.fragment import comparable
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge_serve.app import application
from kbforge_serve.security import Access
from kbforge_serve.service import Service
from kbforge_serve.tokens import Right, Token
from tests.people import people
from tests.program import Run

PEOPLE = people(40, 5)
FIRST, MORE, IMPORTED = PEOPLE[:60], PEOPLE[60::2], PEOPLE[61::2]
SOME = [one.id for one in FIRST[::12]]
NAMES = ["ada", "grace"]
_STEPS = 15
_RECORDS = {one.id for one in PEOPLE}  # all but what persons assert

Groups = frozenset[frozenset[str]]
Pairs = list[tuple[str, str]]


@dataclass
class Made:
    """A decision: about which pair it is, and the pairs that it links and separates."""

    same: bool
    first: str
    second: str
    by: str
    links: Pairs
    apart: Pairs
    value: str = ""  # of the name of the first fragment's entity
    undone: bool = False


@dataclass
class Model:
    """The decisions of a store, by number, and its rules: attributes by kind."""

    made: dict[int, Made] = field(default_factory=dict)
    rules: dict[str, list[str]] = field(default_factory=dict)

    def in_force(self) -> list[Made]:
        return [one for one in self.made.values() if not one.undone]

    def components(self, links: Pairs) -> Callable[[str], str]:
        """What gives the component of a fragment, by these links and those that hold."""
        root: dict[str, str] = {}

        def of(id: str) -> str:
            while root.setdefault(id, id) != id:
                id = root[id]
            return id

        for first, second in [*links, *(pair for x in self.in_force() for pair in x.links)]:
            root[of(first)] = of(second)
        return of

    def allows(self, links: Pairs, apart: Pairs) -> bool:
        """Whether links, and pairs that are apart, contradict nothing that holds."""
        of = self.components(links)
        apart = apart + [pair for x in self.in_force() for pair in x.apart]
        return all(of(first) != of(second) for first, second in apart)

    def says(self, same: bool, first: str, second: str) -> bool:
        """Whether a decision says that of a pair already."""
        return any(
            {one.first, one.second} == {first, second} and one.same == same
            for one in self.in_force()
        )

    def whole(self, first: str, second: str, groups: Groups) -> Pairs:
        """The links of a person who says "same": of whole entities, if nothing forbids that."""
        links = [(first, second), *star(first, groups), *star(second, groups)]
        return links if self.allows(links, []) else links[:1]

    def word_on(self, id: str, groups: Groups) -> tuple[str, str] | None:
        """The last word on the name of a fragment's entity, and whose it is."""
        own = holder(id, groups)
        said = [(x.value, x.by) for x in self.in_force() if x.value and x.first in own]
        return said[-1] if said else None


def holder(id: str, groups: Groups) -> frozenset[str]:
    """The entity of a fragment."""
    return next(one for one in groups if id in one)


def star(id: str, groups: Groups) -> Pairs:
    """Links of a fragment with the others of its entity."""
    return [(id, other) for other in sorted(holder(id, groups)) if other != id]


class Clients:
    """Two people who write to one server."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._secrets = {name: f"{name}-0123456789abcdef" for name in NAMES}
        tokens = [Token(secret, Right.ADMINISTER, name) for name, secret in self._secrets.items()]
        self.client = TestClient(
            application(Service(str(path)), Access("0.0.0.0", tokens)), "http://localhost"
        )

    def ask(self, by: str, method: str, url: str, **sent: object) -> tuple[int, Mapping]:  # type: ignore[type-arg]
        headers = {"authorization": f"Bearer {self._secrets[by]}"}
        answer = self.client.request(method, url, headers=headers, **sent)  # type: ignore[arg-type]
        return answer.status_code, answer.json()

    def groups(self) -> Groups:
        headers = {"authorization": f"Bearer {self._secrets['ada']}"}
        lines = self.client.get("/api/export?format=jsonl", headers=headers).text.splitlines()
        listed = [orjson.loads(line)["fragments"] for line in lines]
        return frozenset(frozenset(_RECORDS.intersection(ids)) for ids in listed)

    def name_of(self, id: str) -> tuple[str, str | None]:
        """The golden name of a fragment's entity, and the person who settled it, if one did."""
        _, answer = self.ask("ada", "GET", f"/api/fragment?id={id}")
        _, entity = self.ask("ada", "GET", f"/api/entities/{answer['entity']['id']}")
        first = (entity["properties"].get("name") or [{"value": ""}])[0]
        return first["value"], first.get("by")

    def entity(self, group: frozenset[str]) -> str:
        """The id of the entity with these fragments."""
        _, answer = self.ask("ada", "GET", f"/api/fragment?id={min(group)}")
        return str(answer["entity"]["id"])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "kb.sqlite"
    add_fragments(str(path), FIRST, RunOptions(likelihood="attributes", alpha=15.0))
    return path


@pytest.fixture
def clients(base: Path, tmp_path: Path) -> Iterator[Clients]:
    made = Clients(Path(shutil.copy(base, tmp_path / "kb.sqlite")))
    with made.client:
        yield made


def decide(rng: random.Random, clients: Clients, model: Model, by: str) -> None:
    """State something about two fragments: it is refused if and only if it contradicts."""
    groups = clients.groups()
    first, second = rng.sample(SOME, 2)  # few, so that decisions meet
    if rng.random() < 0.2:  # about two that are together
        together = [sorted(one) for one in groups if len(one) > 1]
        first, second = rng.sample(rng.choice(together), 2)
    same = rng.random() < 0.6
    links = model.whole(first, second, groups) if same else []
    apart = [] if same else [(first, second)]
    said = {"same": same, "first": first, "second": second, "note": f"because {rng.random()}"}
    status, answer = clients.ask(by, "POST", "/api/decisions", json=said)
    if model.says(same, first, second):
        assert answer["already"], said
    elif not model.allows(links, apart):
        assert (status, "contradicts" in answer["error"]) == (409, True), answer
        assert clients.groups() == groups
    else:
        assert (status, answer["already"]) == (200, False), answer
        assert answer["decision"] == len(model.made) + 1
        model.made[answer["decision"]] = Made(same, first, second, by, links, apart)
        if rng.random() < 0.3:
            _, back = clients.ask(by, "POST", f"/api/decisions/{answer['decision']}/undo")
            assert back["exact"]
            model.made[answer["decision"]].undone = True
            assert clients.groups() == groups


def act(rng: random.Random, clients: Clients, model: Model, by: str) -> None:
    """Join two entities, or part or move fragments: the rehearsal says what comes of it."""
    groups = clients.groups()
    one, other = (holder(id, groups) for id in rng.sample(SOME, 2))
    some = sorted(rng.sample(sorted(one), max(len(one) // 2, 1)))
    rest = sorted(one.difference(some))
    given: dict[str, object]
    if rng.random() < 0.5:
        given = {"act": "join", "entity": clients.entity(one), "other": clients.entity(other)}
        links = [(min(one), id) for id in [*sorted(one)[1:], *sorted(other)]]
        apart = []
        possible = one != other
    else:
        given = {"act": "part", "fragments": some}
        links = [(ids[0], id) for ids in (some, rest) for id in ids[1:]]
        apart = [(some[0], id) for id in rest[:1]]
        possible = bool(rest)
        if rng.random() < 0.5:
            given |= {"act": "move", "entity": clients.entity(other)}
            links += [(some[0], id) for id in sorted(other)]
            possible = one != other
    status, would = clients.ask(by, "POST", "/api/acts?rehearse=true", json=given)
    assert clients.groups() == groups
    assert clients.ask(by, "POST", "/api/acts", json=given)[0] == status
    if not possible or not model.allows(links, apart):
        assert status == (409 if possible else 400), would
        return
    assert status == 200, would
    _, told = clients.ask(by, "GET", "/api/decisions?limit=1")
    (made,) = told["decisions"]
    if made["number"] in model.made:  # all of it was in force
        assert not would["decisions"]
        assert clients.groups() == groups
        return
    said = made["same"], made["first"], made["second"]
    model.made[made["number"]] = Made(*said, by, links, apart)
    sizes = [one["size"] for one in would["effect"]["after"]]
    assert sorted(sizes) == sorted(map(len, clients.groups() - groups)) or not sizes
    if rng.random() < 0.3:
        clients.ask(by, "POST", f"/api/acts/{made['run']}/undo")
        model.made[made["number"]].undone = True
        assert clients.groups() == groups


def settle(rng: random.Random, clients: Clients, model: Model, by: str) -> None:
    """Say what the name of an entity is: nothing is grouped otherwise."""
    groups, id = clients.groups(), rng.choice(SOME)
    value = f"{rng.choice('ABC')}. Person"
    given = {"act": "value", "fragments": [id], "attribute": "name", "value": value}
    for rehearse in ("true", "false"):
        status, answer = clients.ask(by, "POST", f"/api/acts?rehearse={rehearse}", json=given)
        assert status == 200, answer
        assert clients.groups() == groups
    for number in answer["decisions"]:  # none if it was the last word already
        model.made[number] = Made(True, id, f"{by}, decision {number}", by, [], [], value)
    assert clients.name_of(id) == model.word_on(id, groups)


def undo(rng: random.Random, clients: Clients, model: Model, by: str) -> None:
    """Withdraw any decision; one that is withdrawn stays so."""
    if not model.made:
        return
    number = rng.choice(list(model.made))
    status, answer = clients.ask(by, "POST", f"/api/decisions/{number}/undo")
    assert (status, answer["already"]) == (200, model.made[number].undone)
    model.made[number].undone = True


def import_file(rng: random.Random, clients: Clients, model: Model, by: str) -> None:
    """Import a file, which the rehearsal counts alike, and perhaps remove what it added."""
    groups = clients.groups()
    there = {id for one in groups for id in one}
    some = rng.sample(IMPORTED, 6)
    new = [one.id for one in some if one.id not in there]
    body = b"".join(orjson.dumps(one.to_json()) + b"\n" for one in some)
    url = "/api/import?name=more.jsonl"
    status, would = clients.ask(by, "POST", f"{url}&rehearse=true", content=body)
    assert (status, clients.groups()) == (200, groups), would
    status, did = clients.ask(by, "POST", url, content=body)
    counts = would["counts"], did["counts"]
    assert status == 200
    assert [one.get("known", 0) for one in counts] == [6 - len(new)] * 2
    assert (counts[0].get("tried", 0), counts[1].get("added", 0)) == (len(new), len(new))
    home = {id: one for one in clients.groups() for id in one}
    assert home.keys() == there.union(new)
    joined = sum(not home[id].isdisjoint(there) for id in new)
    assert counts[0].get("joined", 0) == joined
    if new and rng.random() < 0.5:
        gone = rng.sample(new, 2) if len(new) > 2 else new
        status, answer = clients.ask(by, "DELETE", "/api/fragments", params={"id": gone})
        assert (status, answer["removed"]) == (200, len(gone)), answer
        assert {id for one in clients.groups() for id in one} == home.keys() - set(gone)


def govern(rng: random.Random, clients: Clients, model: Model, by: str) -> None:
    """Replace the rules, after a rehearsal, and perhaps undo that."""
    rules: dict[str, list[str]] = rng.choice([{}, {"never": ["born"]}, {"always": ["name"]}])
    groups = clients.groups()
    status, would = clients.ask(by, "POST", "/api/rules?rehearse=true", json=rules)
    assert (status, clients.groups()) == (200, groups), would
    status, did = clients.ask(by, "POST", "/api/rules", json={**rules, "note": "by law"})
    assert status == 200, did
    assert would["effect"]["n_after"] == did["effect"]["n_after"]
    if rules != model.rules and rng.random() < 0.3:
        _, back = clients.ask(by, "POST", "/api/rules", json=model.rules)
        assert (back["exact"], clients.groups()) == (True, groups)
    else:
        model.rules = rules


def require_rules(model: Model, groups: Groups) -> None:
    """No rule is broken, except where decisions break it: then all of that component may."""
    of = model.components([])
    for name in model.rules.get("never", ()):
        said = {x.id: frozenset(comparable(x.properties.get(name, ()))) for x in PEOPLE}
        for group in groups:
            stating = [id for id in group if said[id]]
            free = {
                of(id)
                for id, other in combinations(stating, 2)
                if of(id) == of(other) and said[id].isdisjoint(said[other])
            }
            for id, other in combinations(stating, 2):
                may = of(id) == of(other) or free & {of(id), of(other)}
                assert may or not said[id].isdisjoint(said[other]), (name, id, other)
    if not any(one.apart for one in model.in_force()):
        home = {id: group for group in groups for id in group}
        for name in model.rules.get("always", ()):
            for x, y in combinations([x for x in PEOPLE if x.id in home], 2):
                values = (comparable(z.properties.get(name, ())) for z in (x, y))
                if set(next(values)).intersection(next(values)):
                    assert home[x.id] == home[y.id], (name, x.id, y.id)


def add(rng: random.Random, clients: Clients, model: Model, by: str) -> None:
    """Add fragments, some of them again."""
    some = rng.sample(MORE, 5)
    there = {id for one in clients.groups() for id in one}
    new = [one for one in some if one.id not in there]
    status, answer = clients.ask(
        by, "POST", "/api/fragments", content=orjson.dumps([one.to_json() for one in some])
    )
    assert (status, answer["added"], answer["skipped"]) == (200, len(new), 5 - len(new)), answer
    assert {id for one in clients.groups() for id in one} == there | {one.id for one in new}


def require_equal(clients: Clients, model: Model) -> None:
    """What holds is so in the grouping, and the lists of decisions are equal."""
    groups = clients.groups()
    home = {id: number for number, one in enumerate(groups) for id in one}
    require_rules(model, groups)
    for one in model.made.values():
        if not one.undone:
            assert all(home[first] == home[second] for first, second in one.links), one
            assert all(home[first] != home[second] for first, second in one.apart), one
        if one.value and (word := model.word_on(one.first, groups)):
            assert clients.name_of(one.first) == word
    _, told = clients.ask("ada", "GET", "/api/decisions?limit=100")
    assert [
        (one["number"], one["same"], one["first"], one["second"], one["by"], one["undone"] is None)
        for one in reversed(told["decisions"])
    ] == [
        (number, one.same, one.first, one.second, one.by, not one.undone)
        for number, one in model.made.items()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_what_clients_write_is_what_the_model_says(
    clients: Clients, seed: int, program: Run
) -> None:
    rng, model = random.Random(seed), Model()
    for _ in range(_STEPS):
        writes = [decide, act, settle, undo, add, import_file, govern]
        write = rng.choices(writes, [5, 2, 1, 1, 1, 1, 1])[0]
        write(rng, clients, model, rng.choice(NAMES))
        require_equal(clients, model)
    if seed % 20 == 0:
        clients.client.__exit__(None, None, None)
        assert program("check", clients.path).code == 0
        clients.client.__enter__()
