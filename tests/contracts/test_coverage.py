"""Every plugin of our own has contract tests: a new one without them fails here."""

import importlib
from pathlib import Path

import orjson
import pytest

import kbforge.testing
from kbforge import registry
from kbforge.contracts.fragment import Fragment, Shared
from kbforge.errors import BadRecord
from kbforge.files.fragments import held, read_fragments
from kbforge.testing import Contract
from tests.contracts.conftest import plugins_of

PACKAGES = ("kbforge", "kbforge_plugins", "kbforge_training")
PACKAGES += ("kbforge_graphs", "kbforge_lm", "kbforge_serve")
TESTS = Path(__file__).parent.parent


def ours() -> set[tuple[str, str]]:
    """Kind and name of every plugin of these packages."""
    found = ((p.entry_point.module.split(".")[0], p) for p in registry.installed())
    return {(p.kind, p.name) for package, p in found if package in PACKAGES}


def covered() -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for path in sorted(TESTS.rglob("contracts/test_*.py")):
        parts = path.relative_to(TESTS.parent).with_suffix("").parts
        if "lab" in parts:  # it has a coverage of its own
            continue
        module = importlib.import_module(".".join(parts))
        for member in vars(module).values():
            if isinstance(member, type) and issubclass(member, Contract):
                names = {name for name, _ in plugins_of(member)} | {getattr(member, "name", "")}
                found |= {(member.kind, name) for name in names if name}
    return found


def test_every_plugin_of_ours_has_contract_tests():
    assert ours() - covered() == set()


def test_no_contract_test_names_a_plugin_that_is_gone():
    assert covered() - ours() == set()


def test_every_kind_with_plugins_has_a_test_kit():
    kinds = {kind for kind, _ in ours()}
    kits = {
        member.kind
        for member in vars(kbforge.testing).values()
        if isinstance(member, type) and issubclass(member, Contract) and member is not Contract
    }
    assert kinds == kits


# Equal values of a file's fragments are one object, and are checked as any others.


def lines(*properties: object) -> bytes:
    rows = ({"id": f"{k}", "properties": said} for k, said in enumerate(properties))
    return b"\n".join(map(orjson.dumps, rows))


def test_equal_values_are_one_object(tmp_path):
    path = tmp_path / "fragments.jsonl"
    long = "x" * 1000
    path.write_bytes(
        lines(
            {"name": ["Ann Berg"], "also": ["A", "B"], "text": [long]},
            {"also": ["A", "B"], "name": ["Ann Berg"], "text": [long]},
            {"name": ["A"], "also": ["Ann Berg"]},
        )
    )
    one, two, three = held(read_fragments(str(path)))
    assert (
        one.properties
        == two.properties
        == {
            "name": ("Ann Berg",),
            "also": ("A", "B"),
            "text": (long,),
        }
    )
    assert list(two.properties) == ["also", "name", "text"]
    assert one.properties["name"] is two.properties["name"] is three.properties["also"]
    assert one.properties["also"] is two.properties["also"]
    assert one.properties["text"] is not two.properties["text"]
    assert next(iter(one.properties)) is list(two.properties)[1]


@pytest.mark.parametrize(
    "properties",
    [
        {"name": [""]},
        {"name": [7]},
        {"name": [["Ann"]]},
        {"name": "Ann"},
        {"name": []},
        {"": ["Ann"]},
        {"na\0me": ["Ann"]},
        {"name": ["Ann", "\0"]},
    ],
)
def test_what_was_shared_before_excuses_nothing(properties):
    shared = Shared()
    good = {"id": "a", "properties": {"name": ["Ann"], "also": ["Ann", "Bo"]}}
    Fragment.from_json(good, "x:1", shared)
    bad = {"id": "b", "properties": properties}
    with pytest.raises(BadRecord) as alone:
        Fragment.from_json(bad, "x:2")
    with pytest.raises(BadRecord) as after:
        Fragment.from_json(bad, "x:2", shared)
    assert str(after.value) == str(alone.value)


def test_what_is_shared_is_bounded():
    shared = Shared()
    for k in range(70_000):
        said = {f"a{k}": [f"v{k}"], f"b{k}": [f"v{k}", "w"]}
        read = Fragment.from_json({"id": f"{k}", "properties": said}, "x:1", shared)
        assert read.properties == {f"a{k}": (f"v{k}",), f"b{k}": (f"v{k}", "w")}
        assert max(map(len, (shared.attributes, shared.values, shared.lists))) <= 1 << 17
