"""Discovery against real little distributions: one broken plugin never breaks another."""

import json
from pathlib import Path

import pytest

from kbforge import __version__, registry
from kbforge.version import DISTRIBUTION
from tests.registry.distributions import Distribution, python, within

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
    requires=("entity-fragments>=0.1",),
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


@pytest.fixture
def good(tmp_path):
    """A path with the good distribution."""
    GOOD.write(tmp_path)
    return tmp_path


def statuses(path: Path, *options: str) -> dict[tuple[str, str, str], tuple[str, str]]:
    found = within("plugins", "list", "--json", *options, path=path)
    rows = json.loads(found.out)["plugins"]
    return {
        (r["kind"], r["name"], r["distribution"]): (r["status"], r["cause"])
        for r in rows
        if r["distribution"] != DISTRIBUTION
    }


def test_list_names_strangers_and_ourselves(good):
    rows = json.loads(within("plugins", "list", "--json", path=good).out)["plugins"]
    assert {(r["kind"], r["name"], r["distribution"], r["version"], r["status"]) for r in rows} >= {
        ("sources", "good", "kb-good", "1.0", "ok"),
        ("commands", "greet", "kb-good", "1.0", "ok"),
        ("commands", "plugins", DISTRIBUTION, __version__, "ok"),
    }


def test_list_imports_no_plugin(tmp_path):
    broken("raise SystemExit('imported')").write(tmp_path)
    program = (
        "import sys; from kbforge import registry; registry.installed();"
        "print([m for m in sys.modules if m.startswith(('kb_broken', 'kbforge_plugins'))])"
    )
    assert python("-c", program, path=tmp_path).out == "[]\n"


def test_list_keeps_to_one_kind(good):
    for kind in ("source", "sources"):
        assert set(statuses(good, "--kind", kind)) == {("sources", "good", "kb-good")}
    unknown = within("plugins", "list", "--kind", "sauces", path=good)
    assert unknown.code == 2
    assert 'there is no kind "sauces"; kinds: sources,' in unknown.err


@pytest.mark.parametrize("module", BROKEN_MODULES.values(), ids=BROKEN_MODULES.keys())
def test_a_broken_plugin_breaks_only_itself(good, module):
    broken(module).write(good)
    help_page = within("--help", path=good)
    assert help_page.code == 0
    assert [line for line in help_page.out.splitlines() if " bad " in line and "broken" in line]
    assert within("greet", path=good).out == "hello\n"
    refused = within("bad", "some", "--option", path=good)
    assert refused.code == 1
    assert 'kbforge: the command "bad" of kb-broken 1.0 cannot be loaded: ' in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.slow
def test_check_reports_the_cause_and_fails(good):
    broken("print('noise'); import module_that_is_not_there").write(good)
    assert within("plugins", "list", "--json", path=good).code == 0
    checked = within("plugins", "list", "--check", "--json", path=good)
    assert checked.code == 1
    causes = {r["name"]: r["cause"] for r in json.loads(checked.out)["plugins"] if r["cause"]}
    assert causes["bad"].endswith(
        "cannot be loaded: ModuleNotFoundError: No module named 'module_that_is_not_there'"
    )
    assert "good" not in causes


def test_an_incompatible_distribution_is_named_not_loaded(tmp_path):
    stranger = broken("raise SystemExit('imported')")
    stranger.requires = ('Entity_Fragments>=99; python_version > "3"', "entity-fragments-else==1")
    stranger.write(tmp_path)
    status, cause = statuses(tmp_path)["sources", "bad", "kb-broken"]
    assert status == "incompatible"
    assert cause.endswith(f"requires entity-fragments>=99, but this is {__version__}")
    shown = within("plugins", "show", "source", "bad", path=tmp_path)
    assert (shown.code, shown.err) == (1, f"kbforge: {cause}\n")


def test_a_name_claimed_twice_names_both_owners(tmp_path):
    first = Distribution("kb-one", entry_points={"kbforge.sources": {"jsonl": "kb_one:S"}})
    first.write(tmp_path)
    found = statuses(tmp_path)["sources", "jsonl", "kb-one"]
    assert found == (
        "duplicate",
        f'the source name "jsonl" is claimed by {DISTRIBUTION} {__version__} and '
        "kb-one 1.0; uninstall one of them",
    )
    shown = within("plugins", "show", "source", "jsonl", path=tmp_path)
    assert (shown.code, shown.err) == (1, f"kbforge: {found[1]}\n")
    # other names are untouched
    assert within("plugins", "show", "source", "csv", path=tmp_path).code == 0


def test_the_first_version_on_the_path_shadows_the_rest(tmp_path):
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


METADATA = b"Metadata-Version: 2.1\nName: kb-broken\nVersion: 1.0\n"
DAMAGE: dict[str, tuple[str, bytes | None]] = {
    "no metadata": ("METADATA", None),
    "metadata that are no text": ("METADATA", b"Name: kb-\xff\xfe\nVersion: 1\n"),
    "no requirement": ("METADATA", METADATA + b"Requires-Dist: entity-fragments=>1 nonsense\n"),
    "no entry": ("entry_points.txt", b"[kbforge.sources]\nno equals sign here\n"),
    "entries that are no text": ("entry_points.txt", b"[kbforge.sources]\nx = y:\xff\n"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_metadata_are_reported_and_hurt_no_other(good, damage):
    (file, content), info = DAMAGE[damage], broken("x = 1").write(good)
    (info / file).unlink()
    if content is not None:
        (info / file).write_bytes(content)
    listed = within("plugins", "list", "--json", path=good)
    assert listed.code == 0
    found = json.loads(listed.out)
    assert [d["distribution"] for d in found["damaged"]] == ["kb_broken-1.0.dist-info"]
    assert found["damaged"][0]["cause"]
    assert "good" in {r["name"] for r in found["plugins"]}
    assert within("greet", path=good).out == "hello\n"
    table = within("plugins", "list", path=good)
    assert "kbforge: the plugins of kb_broken-1.0.dist-info" in table.err


def test_a_requirement_on_another_that_is_none_hurts_nobody(tmp_path):
    stranger = broken("x = 1")
    stranger.requires = ("other=>1 nonsense", 'graphs; extra == "g"')
    stranger.entry_points["kbforge.sources"]["bad"] += " [g]"
    stranger.write(tmp_path)
    assert statuses(tmp_path)["sources", "bad", "kb-broken"] == ("ok", "")


def test_an_app_that_is_no_typer_app_is_listed_as_broken(tmp_path):
    broken("app = 3").write(tmp_path)
    refused = within("bad", path=tmp_path)
    assert refused.code == 1
    assert refused.err.startswith('kbforge: the command "bad" cannot be used: ')
    assert within("--help", path=tmp_path).code == 0


def test_strangers_verbs_have_their_own_panel_and_no_markup(good):
    page = within("--help", path=good).out
    assert "Commands of kb-good" in page
    assert "Say hello [/to] all." in page
    assert page.index("cluster") < page.index("greet")


def test_show_documents_every_option(good):
    shown = json.loads(within("plugins", "show", "source", "good", "--json", path=good).out)
    assert shown["summary"] == "A good source."
    assert shown["options"] == [
        {"name": "size", "type": "int", "default": None, "help": "how many at once."},
        {"name": "names", "type": "tuple[str, ...]", "default": "a", "help": "which."},
    ]
    page = within("plugins", "show", "sources", "good", path=good).out
    assert "source.size" in page
    assert "(required)" in page


def test_show_of_an_unknown_name_lists_those_there_are(tmp_path):
    unknown = within("plugins", "show", "clusterer", "k-means")
    assert unknown.code == 1
    assert unknown.err == (
        'kbforge: there is no clusterer "k-means"; available: '
        f"{', '.join(registry.names('clusterers'))} (see kbforge plugins list)\n"
    )
