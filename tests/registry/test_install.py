"""The command that installs an extra fits how the distribution was installed."""

import json
from typing import Any

import pytest

from kbforge.registry import install_command
from kbforge.version import DISTRIBUTION
from tests.registry.distributions import Distribution, within

FOLDER: dict[str, Any] = {"url": "file://{here}", "dir_info": {}}
WHEEL: dict[str, Any] = {"archive_info": {"hash": "sha256=0"}}
GIT = {"vcs": "git", "commit_id": "abc", "requested_revision": "v1"}
COMMANDS: dict[str, tuple[object, str]] = {
    "index": (None, "'kb-one[x]'"),
    "folder": (FOLDER, "'{here}[x]'"),
    "editable": (FOLDER | {"dir_info": {"editable": True}}, "-e '{here}[x]'"),
    "escaped": (FOLDER | {"url": "file://{here}/a%20b%27"}, "'{here}/a b'\"'\"'[x]'"),
    "wheel": (WHEEL | {"url": "file://{here}/kb.whl"}, "'{here}/kb.whl[x]'"),
    "no wheel any more": (WHEEL | {"url": "file://{here}/gone.whl"}, "'kb-one[x]'"),
    "address": (WHEEL | {"url": "https://a.test/kb.whl"}, "'kb-one[x] @ https://a.test/kb.whl'"),
    "repository": (
        {"url": "https://a.test/kb.git", "vcs_info": GIT},
        "'kb-one[x] @ git+https://a.test/kb.git@abc'",
    ),
    "no JSON": (b"{", "'kb-one[x]'"),
    "a list": (b"[1]", "'kb-one[x]'"),
    "no address": (b"{}", "'kb-one[x]'"),
    "a number": (b'{"url": 3}', "'kb-one[x]'"),
    "no commit": (b'{"url": "https://a.test", "vcs_info": {"vcs": "git"}}', "'kb-one[x]'"),
    "odd folder": (b'{"url": "file:///", "dir_info": 1}', "'kb-one[x]'"),
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "kb.whl").touch()
    (tmp_path / "a b'").mkdir()
    return tmp_path


@pytest.mark.parametrize("how", COMMANDS)
def test_the_command_goes_where_the_distribution_came_from(how, here):
    told, command = COMMANDS[how]
    info = Distribution("kb-one").write(here)
    if told is not None:
        content = told if isinstance(told, bytes) else json.dumps(told).encode()
        (info / "direct_url.json").write_bytes(content.replace(b"{here}", str(here).encode()))
    expected = command.replace("{here}", str(here))
    assert install_command("x", "kb-one") == f"pip install {expected}"


def test_what_is_not_installed_comes_from_the_index():
    assert install_command("x", "kb-of-nobody") == "pip install 'kb-of-nobody[x]'"


def test_a_plugin_that_lacks_its_extra_says_how_it_was_installed(here):
    plugin = {"kbforge.sources": {"one": "kb_one:One [graphs]"}}
    lacking = ('kb-of-nobody>=1; extra == "graphs"',)
    info = Distribution("kb-one", entry_points=plugin, requires=lacking).write(here)
    with (info / "METADATA").open("a") as file:
        file.write("Provides-Extra: graphs\n")
    (info / "direct_url.json").write_text(json.dumps({"url": f"file://{here}", "dir_info": {}}))
    refused = within("load", "one", "x", path=here)
    assert refused.code == 1
    assert refused.err.endswith(f": pip install '{here}[graphs]'\n")


def test_ours_is_the_distribution_that_has_the_verbs(here):
    assert install_command("serve").endswith("[serve]'")
    Distribution(DISTRIBUTION).write(here)
    assert install_command("serve") == f"pip install '{DISTRIBUTION}[serve]'"
