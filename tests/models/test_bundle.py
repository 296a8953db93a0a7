"""Model bundles: what is written is read back; whatever was tampered with is refused, by name."""

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch

from kbforge.errors import ModelError, UsageError
from kbforge.models.bundle import (
    MANIFEST,
    Bundle,
    add_file,
    read_bundle,
    require_device,
    write_bundle,
)
from kbforge.models.trees import Trees, load_parts

BUNDLE = Bundle(
    kind="likelihoods",
    plugin="bigram",
    files={"counts.json": b'{"a": 1}\n', "notes.txt": b"\x00\xff"},
    recipe={"order": 2},
    data={"fragments": 3, "sha256": "0" * 64},
)


@pytest.fixture
def folder(tmp_path):
    write_bundle(tmp_path / "model", BUNDLE)
    return tmp_path / "model"


def test_round_trip(folder):
    assert read_bundle(folder) == BUNDLE
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_same_bundle_same_bytes(folder, tmp_path):
    write_bundle(tmp_path / "again", BUNDLE)
    for name in (MANIFEST, *BUNDLE.files):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_a_file_added_later(folder):
    add_file(folder, "calibration.toml", b"alpha = 1\n")
    add_file(folder, "calibration.toml", b"alpha = 2\n")
    bundle = read_bundle(folder)
    assert bundle.files == {**BUNDLE.files, "calibration.toml": b"alpha = 2\n"}
    assert bundle.recipe == BUNDLE.recipe
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_replacing_a_bundle_but_nothing_else(folder, tmp_path):
    other = Bundle("likelihoods", "names", {"x": b""}, {}, {})
    write_bundle(folder, other)
    assert read_bundle(folder) == other
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not delete")
    with pytest.raises(ModelError, match="exists and is not a model bundle"):
        write_bundle(tmp_path / "mine", other)
    assert (tmp_path / "mine" / "thesis.txt").exists()


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "", ".hidden", "manifest.json", "a\nb", "/x", ".."]
)
def test_names_that_would_leave_the_folder(tmp_path, name):
    with pytest.raises(ModelError, match="cannot be the name of a file"):
        write_bundle(tmp_path / "model", Bundle("likelihoods", "bigram", {name: b""}, {}, {}))
    assert list(tmp_path.iterdir()) == []


def edit(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        manifest = json.loads((folder / MANIFEST).read_text())
        change(manifest)
        (folder / MANIFEST).write_text(json.dumps(manifest))

    return tamper


def of_manifest(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda folder: (folder / MANIFEST).write_bytes(change((folder / MANIFEST).read_bytes()))


def of_counts(content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "counts.json").write_bytes(content)


def entry(**fields: object) -> Callable[[Path], None]:
    return edit(lambda manifest: manifest["files"]["counts.json"].update(fields))


TAMPERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "file missing": (
        lambda f: (f / "counts.json").unlink(),
        '"counts.json" of its manifest is missing',
    ),
    "file extra": (lambda f: (f / "evil.py").touch(), 'the file "evil.py" is not in the manifest'),
    "folder extra": (lambda f: (f / "sub").mkdir(), 'the file "sub" is not in the manifest'),
    "file truncated": (of_counts(b"{"), '"counts.json" has 1 bytes, but its manifest says 9'),
    "file changed, same size": (of_counts(b'{"a": 2}\n'), '"counts.json" has SHA-256'),
    "file is a link": (
        lambda f: ((f / "counts.json").unlink(), (f / "counts.json").symlink_to("/dev/zero")),
        '"counts.json" is not a regular file',
    ),
    "no manifest": (lambda f: (f / MANIFEST).unlink(), "is not a model bundle"),
    "manifest truncated": (of_manifest(lambda m: m[:40]), "manifest.json is not JSON"),
    "manifest with a key twice": (
        of_manifest(lambda m: b'{"format":9,' + m[1:]),
        'expected distinct keys, got "format" 2 times',
    ),
    "manifest not an object": (of_manifest(lambda m: b"[]"), "manifest.json is not a JSON object"),
    "manifest huge": (of_manifest(lambda m: b" " * (1 << 21)), "manifest.json is larger than"),
    "format later": (edit(lambda m: m.update(format=2)), "bundle of format 2, but this kbforge"),
    "format not a number": (
        edit(lambda m: m.update(format="1")),
        'field "format" should be a whole number, got 1',
    ),
    "format a boolean": (
        edit(lambda m: m.update(format=True)),
        'field "format" should be a whole number, got True',
    ),
    "field missing": (
        edit(lambda m: m.pop("plugin")),
        'field "plugin" should be a string, got nothing',
    ),
    "field unknown": (
        edit(lambda m: m.update(run="rm")),
        'field "run" should be one of format, kind, plugin, kbforge, recipe, data, files, got an '
        "unknown field",
    ),
    "path traversal": (
        edit(lambda m: m["files"].update({"../secret": {"size": 0, "sha256": "0" * 64}})),
        'names a file "../secret" outside the bundle',
    ),
    "entry without hash": (
        edit(lambda m: m["files"]["counts.json"].pop("sha256")),
        'field "files.counts.json.sha256" should be a string, got nothing',
    ),
    "size below 0": (entry(size=-9), '"counts.json" has 9 bytes, but its manifest says -9'),
    "size of another file": (entry(size=8), '"counts.json" has 9 bytes, but its manifest says 8'),
    "what is no hash": (entry(sha256="\n\x1b[2J"), r"its manifest says \n\x1b[2J"),
    "hash of another file": (entry(sha256="1" * 64), "its manifest says 111111111111"),
    "file not listed": (
        edit(lambda m: m["files"].pop("notes.txt")),
        'the file "notes.txt" is not in the manifest',
    ),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_tampering_is_refused_with_what_differs(folder, case):
    tamper, says = TAMPERED[case]
    tamper(folder)
    with pytest.raises(ModelError) as caught:
        read_bundle(folder)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_folder_and_missing_parent(tmp_path):
    with pytest.raises(ModelError, match="there is no model bundle at"):
        read_bundle(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=r"cannot write .*no such file"):
        write_bundle(tmp_path / "no" / "where", BUNDLE)


# A GPU that is asked for and not there.


@pytest.mark.parametrize("there", [True, False])
def test_a_gpu_is_looked_for(monkeypatch, there):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    require_device("cpu")
    if there:
        require_device("cuda")
        return
    with pytest.raises(UsageError, match=r"no usable GPU: PyTorch .* --gpu"):
        require_device("cuda")


# Decision trees as bits in the kernel and node by node: the same sums, to the last bit.


@pytest.mark.parametrize("rows", [0, 1, 255, 600])
def test_the_kernel_adds_up_node_by_node(rows):
    path = files("kbforge_plugins").joinpath("bundles", "default", "pairs.safetensors")
    trees = load_parts(path.read_bytes(), "what ships", ("fragments", "tables"), ())[0]["fragments"]
    rng = np.random.default_rng(rows)
    values = rng.normal(size=(rows, len(trees.features))) * 2
    values[rng.random(values.shape) < 0.1] = np.nan
    values[rng.random(values.shape) < 0.2] = rng.choice(trees.threshold)  # as large as a threshold
    assert trees.predict(values).tolist() == [summed(trees, row) for row in values.tolist()]


@pytest.mark.parametrize("leaves", [1, 2, 32, 33, 200])
def test_a_tree_of_any_size_is_added_up(leaves):
    """Also a tree that is a chain, and one without a node."""
    rng = np.random.default_rng(leaves)
    nodes = leaves - 1
    number = np.arange(nodes, dtype=np.int32)
    ends = np.append(number[1:], -leaves).astype(np.int32)
    trees = Trees(
        ("x", "y"),
        rng.integers(2, size=nodes).astype(np.int32),
        rng.normal(size=nodes),
        rng.integers(2, size=nodes).astype(np.uint8),
        *((-1 - number, ends) if leaves % 2 else (ends, -1 - number)),
        rng.normal(size=leaves),
        np.array([0 if nodes else -1], np.int32),
        np.array([0.5]),
    )
    values = rng.normal(size=(70, 2))
    values[rng.random(values.shape) < 0.1] = np.nan
    assert trees.predict(values).tolist() == [summed(trees, row) for row in values.tolist()]


def summed(trees: Trees, row: list[float]) -> float:
    """The sum of the leaves that a row ends at, tree after tree."""
    total = float(trees.offset[0])
    for root in trees.roots.tolist():
        node = root
        while node >= 0:
            value = row[trees.feature[node]]
            missing_left = bool(trees.missing_left[node])
            left = missing_left if value != value else value <= trees.threshold[node]
            node = int((trees.left if left else trees.right)[node])
        total += float(trees.leaves[-1 - node])
    return total
