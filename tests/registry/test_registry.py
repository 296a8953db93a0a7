"""Discovery against real little distributions: one broken plugin never breaks another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbforge import __version__, registry
from tests.registry.distributions import Distribution, kbforge, python

GOOD = Distribution(
    name="kb-good",
    entry_points={
        "kbforge.sources": {"good": "kb_good:Good"},
        "kbforge.commands": {"greet": "kb_good:app"},
    },
    modules={
        "kb_good": '''
import typer
from kbforge.contracts import Source

app = typer.Typer()

@app.command()
def greet() -> None:
    """Say hello [/to] all."""
    print("hello")

class Good(Source):
    """A good source.

    Args:
        size: how many
            at once.
        names: which.
    """

    def __init__(self, size: int, names: tuple[str, ...] = ("a",)) -> None: ...

    def read(self, inputs, on_bad): ...
'''
    },
    requires=("kbforge>=0.1",),
)

BROKEN_MODULES = {
    "missing module": "import module_that_is_not_there",
    "import error": "from json import nothing_of_that_name",
    "syntax error": "def (:",
    "exit at import": "raise SystemExit(3)",
    "any error": "raise RuntimeError('no such luck')",
    "no such object": "x = 1",
}


def broken(module: str) -> Distribution:
    return Distribution(
        name="kb-broken",
        entry_points={
            "kbforge.sources": {"bad": "kb_broken:Bad"},
            "kbforge.commands": {"bad": "kb_broken:app"},
        },
        modules={"kb_broken": module},
    )


def statuses(path: Path, *options: str) -> dict[tuple[str, str, str], tuple[str, str]]:
    found = kbforge("plugins", "list", "--json", *options, path=path)
    rows = json.loads(found.out)["plugins"]
    return {
        (r["kind"], r["name"], r["distribution"]): (r["status"], r["cause"])
        for r in rows
        if r["distribution"] != "kbforge"
    }


def test_list_names_strangers_and_ourselves(tmp_path: Path) -> None:
    GOOD.write(tmp_path)
    rows = json.loads(kbforge("plugins", "list", "--json", path=tmp_path).out)["plugins"]
    assert {(r["kind"], r["name"], r["distribution"], r["version"], r["status"]) for r in rows} >= {
        ("sources", "good", "kb-good", "1.0", "ok"),
        ("commands", "greet", "kb-good", "1.0", "ok"),
        ("commands", "plugins", "kbforge", __version__, "ok"),
    }


def test_list_imports_no_plugin(tmp_path: Path) -> None:
    broken("raise SystemExit('imported')").write(tmp_path)
    program = (
        "import sys; from kbforge import registry; registry.installed();"
        "print([m for m in sys.modules if m.startswith(('kb_broken', 'kbforge_plugins'))])"
    )
    assert python("-c", program, path=tmp_path).out == "[]\n"


def test_list_keeps_to_one_kind(tmp_path: Path) -> None:
    GOOD.write(tmp_path)
    for kind in ("source", "sources"):
        assert set(statuses(tmp_path, "--kind", kind)) == {("sources", "good", "kb-good")}
    unknown = kbforge("plugins", "list", "--kind", "sauces", path=tmp_path)
    assert unknown.code == 2
    assert 'there is no kind "sauces"; kinds: sources,' in unknown.err


@pytest.mark.parametrize("module", BROKEN_MODULES.values(), ids=BROKEN_MODULES.keys())
def test_a_broken_plugin_breaks_only_itself(tmp_path: Path, module: str) -> None:
    broken(module).write(tmp_path)
    GOOD.write(tmp_path)
    help_page = kbforge("--help", path=tmp_path)
    assert help_page.code == 0
    assert [line for line in help_page.out.splitlines() if " bad " in line and "broken" in line]
    assert kbforge("greet", path=tmp_path).out == "hello\n"
    refused = kbforge("bad", "some", "--option", path=tmp_path)
    assert refused.code == 1
    assert 'kbforge: the command "bad" of kb-broken 1.0 cannot be loaded: ' in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.slow
def test_check_reports_the_cause_and_fails(tmp_path: Path) -> None:
    broken("print('noise'); import module_that_is_not_there").write(tmp_path)
    GOOD.write(tmp_path)
    assert kbforge("plugins", "list", "--json", path=tmp_path).code == 0
    checked = kbforge("plugins", "list", "--check", "--json", path=tmp_path)
    assert checked.code == 1
    causes = {r["name"]: r["cause"] for r in json.loads(checked.out)["plugins"] if r["cause"]}
    assert causes["bad"].endswith(
        "cannot be loaded: ModuleNotFoundError: No module named 'module_that_is_not_there'"
    )
    assert "good" not in causes


def test_an_incompatible_distribution_is_named_not_loaded(tmp_path: Path) -> None:
    stranger = broken("raise SystemExit('imported')")
    stranger.requires = ('kbforge>=99; python_version > "3"', "kbforge-else==1")
    stranger.write(tmp_path)
    status, cause = statuses(tmp_path)["sources", "bad", "kb-broken"]
    assert status == "incompatible"
    assert cause.endswith(f"requires kbforge>=99, this is {__version__}")
    shown = kbforge("plugins", "show", "source", "bad", path=tmp_path)
    assert (shown.code, shown.err) == (1, f"kbforge: {cause}\n")


def test_a_name_claimed_twice_names_both_owners(tmp_path: Path) -> None:
    first = Distribution("kb-one", entry_points={"kbforge.sources": {"jsonl": "kb_one:S"}})
    first.write(tmp_path)
    found = statuses(tmp_path)["sources", "jsonl", "kb-one"]
    assert found == (
        "duplicate",
        'the source name "jsonl" is claimed by kb-one 1.0 and '
        f"kbforge {__version__}; uninstall one of them",
    )
    shown = kbforge("plugins", "show", "source", "jsonl", path=tmp_path)
    assert (shown.code, shown.err) == (1, f"kbforge: {found[1]}\n")
    # other names are untouched
    assert kbforge("plugins", "show", "source", "csv", path=tmp_path).code == 0


def test_the_first_version_on_the_path_shadows_the_rest(tmp_path: Path) -> None:
    for folder, version in (("front", "2.0"), ("back", "1.0")):
        Distribution(
            "kb-twice", version, entry_points={"kbforge.sources": {f"v{version[0]}": "m:S"}}
        ).write(tmp_path / folder)
    program = (
        "from kbforge import registry;"
        "print([p.name for p in registry.installed() if p.distribution == 'kb-twice'])"
    )
    path = f"{tmp_path / 'front'}:{tmp_path / 'back'}"
    assert python("-c", program, PYTHONPATH=path).out == "['v2']\n"


def damage_nothing(info: Path) -> None:
    (info / "METADATA").unlink()


def damage_bytes(info: Path) -> None:
    (info / "METADATA").write_bytes(b"Name: kb-\xff\xfe\nVersion: 1\n")


def damage_requirement(info: Path) -> None:
    text = (info / "METADATA").read_text()
    (info / "METADATA").write_text(text + "Requires-Dist: kbforge=>1 nonsense\n")


def damage_entry_points(info: Path) -> None:
    (info / "entry_points.txt").write_text("[kbforge.sources]\nno equals sign here\n")


def damage_entry_bytes(info: Path) -> None:
    (info / "entry_points.txt").write_bytes(b"[kbforge.sources]\nx = y:\xff\n")


@pytest.mark.parametrize(
    "damage",
    [
        damage_nothing,
        damage_bytes,
        damage_requirement,
        damage_entry_points,
        damage_entry_bytes,
    ],
)
def test_damaged_metadata_are_reported_and_hurt_no_other(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    damage(broken("x = 1").write(tmp_path))
    GOOD.write(tmp_path)
    listed = kbforge("plugins", "list", "--json", path=tmp_path)
    assert listed.code == 0
    found = json.loads(listed.out)
    assert [d["distribution"] for d in found["damaged"]] == ["kb_broken-1.0.dist-info"]
    assert found["damaged"][0]["cause"]
    assert "good" in {r["name"] for r in found["plugins"]}
    assert kbforge("greet", path=tmp_path).out == "hello\n"
    table = kbforge("plugins", "list", path=tmp_path)
    assert "kbforge: the plugins of kb_broken-1.0.dist-info" in table.err


def test_an_app_that_is_no_typer_app_is_listed_as_broken(tmp_path: Path) -> None:
    broken("app = 3").write(tmp_path)
    refused = kbforge("bad", path=tmp_path)
    assert refused.code == 1
    assert refused.err.startswith('kbforge: the command "bad" cannot be used: ')
    assert kbforge("--help", path=tmp_path).code == 0


def test_strangers_verbs_have_their_own_panel_and_no_markup(tmp_path: Path) -> None:
    GOOD.write(tmp_path)
    page = kbforge("--help", path=tmp_path).out
    assert "Commands of kb-good" in page
    assert "Say hello [/to] all." in page
    assert page.index("cluster") < page.index("greet")


def test_show_documents_every_option(tmp_path: Path) -> None:
    GOOD.write(tmp_path)
    shown = json.loads(kbforge("plugins", "show", "source", "good", "--json", path=tmp_path).out)
    assert shown["summary"] == "A good source."
    assert shown["options"] == [
        {"name": "size", "type": "int", "default": None, "help": "how many at once."},
        {"name": "names", "type": "tuple[str, ...]", "default": "a", "help": "which."},
    ]
    page = kbforge("plugins", "show", "sources", "good", path=tmp_path).out
    assert "source.size" in page
    assert "(required)" in page


def test_show_of_an_unknown_name_lists_those_there_are(tmp_path: Path) -> None:
    unknown = kbforge("plugins", "show", "clusterer", "k-means")
    assert unknown.code == 1
    assert unknown.err == (
        'kbforge: there is no clusterer "k-means"; available: '
        f"{', '.join(registry.names('clusterers'))} (see kbforge plugins list)\n"
    )
