"""`make gpu-pack`: what a bare machine with a GPU lacks (see `tests.lm.gpu.bare`).

    python -m tests.lm.gpu.pack [CORPUS] [--python 3.12] [--no-wheels]

CORPUS is the folder that examples/reproductions/lm_corpus.py has written. Its fragments are put in
a random order of entities, so that the first of them are a sample, and ids and labels become
numbers. The confusable sets come from the folder that KBFORGE_DATA names. What `bigram`, `pairs`
and the model that ships reach on them is measured here, as it needs no GPU.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from kbforge.contracts import Fragment
from kbforge.files.fragments import held, read_fragments, to_line
from kbforge.kernel.build import ABOUT, HERE, LIBRARY
from kbforge_training.lm.data import by_entity
from tests.lm.gpu.bare import GIVEN, PACK, ROOT
from tests.lm.gpu.measure import BASELINES, FAMILIES, measured

# imported only where a tokenizer is downloaded
NOT_NEEDED = ("huggingface-hub",)
ALSO = ("tokenizers", "pytest", "hypothesis")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
LEVEL = 12  # of zstd


def main() -> None:
    """Pack and tell how much it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, nargs="?", help="without it, make gpu alone can run")
    parser.add_argument("--python", default="3.12", help="of the machine with the GPU")
    parser.add_argument("--out", type=Path, default=PACK)
    parser.add_argument("--no-wheels", action="store_true", help="for a machine that has all")
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    (options.out / "site").mkdir(parents=True)
    pack_code(options.out, options.python, not options.no_wheels)
    if options.corpus:
        pack_data(options.corpus, options.out)
    for path in sorted(options.out.iterdir()):
        print(f"{_bytes_in(path) / 2**20:6.1f} MiB  {path.name}")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    tree = sum((ROOT / n).stat().st_size for n in tracked.stdout.decode().split("\0") if n)
    print(f"{_bytes_in(options.out) / 2**20:6.1f} MiB, and {tree / 2**20:.1f} MiB of sources")


def pack_code(out: Path, python: str, wheels: bool) -> None:
    """Wheels, the kernel, and what is said of KBForge where it is installed."""
    (out / "pack.json").write_text(json.dumps({"python": python}), encoding="utf-8")
    own = next(d for d in metadata.distributions() if _has_verbs(d))
    about = out / "site" / f"{own.name}-{own.version}.dist-info"
    about.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (about / name).write_text(own.read_text(name) or "", encoding="utf-8")
    if (HERE / LIBRARY).is_file():
        (out / "kernel").mkdir()
        for name in (LIBRARY, ABOUT):
            shutil.copy(HERE / name, out / "kernel" / name)
    if not wheels:
        return
    asked = [f"{name}=={metadata.version(name)}" for name in sorted(needed(own.name, *ALSO))]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
    command += [f"--platform={platform}" for platform in PLATFORMS]
    subprocess.run([*command, "-d", str(out / "wheels"), *asked], check=True)


def _has_verbs(distribution: metadata.Distribution) -> bool:
    return any(
        e.group == "kbforge.commands" and e.name == "cluster" for e in distribution.entry_points
    )


def needed(*roots: str) -> set[str]:
    """What distributions require, and what that requires, without extras."""
    found: set[str] = set()
    asked = list(roots)
    while asked:
        name = asked.pop()
        for line in metadata.requires(name) or ():
            one = Requirement(line)
            plain = re.sub(r"[-_.]+", "-", one.name).lower()
            wanted = one.marker is None or one.marker.evaluate({"extra": ""})
            if wanted and plain not in {*found, *GIVEN, *NOT_NEEDED}:
                found.add(plain)
                asked.append(plain)
    return found | (set(roots) & set(ALSO))


def pack_data(corpus: Path, out: Path) -> None:
    """The corpus, the confusable sets, and what the baselines reach on them."""
    for part in ("train", "dev"):
        write_packed(numbered(corpus / f"{part}.jsonl"), out / f"{part}.jsonl.zst")
    data = os.environ.get("KBFORGE_DATA")
    if data is None:
        print("KBFORGE_DATA is not set: the pack has no sets to measure F1 on")
        return
    for family in FAMILIES:
        for half in ("train", "dev"):
            shutil.copy(f"{data}/confusable/{family}_{half}.jsonl", out)
    rows = []
    for family in FAMILIES:
        for name in BASELINES:
            rows.append(measured(out, family, name))
            print(json.dumps(rows[-1]), flush=True)
    (out / "baselines.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


def numbered(path: Path) -> Iterator[Fragment]:
    """The fragments of a file by entity, in random order."""
    entities = by_entity(held(read_fragments(str(path))))[0]
    random.Random(0).shuffle(entities)
    number = 0
    for label, entity in enumerate(entities):
        for fragment in entity:
            yield replace(fragment, id=str(number), label=str(label), source=None)
            number += 1


def write_packed(fragments: Iterator[Fragment], path: Path) -> None:
    """A file of fragments, packed."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    settings = {
        zstd.CompressionParameter.compression_level: LEVEL,
        zstd.CompressionParameter.window_log: 27,
        zstd.CompressionParameter.enable_long_distance_matching: 1,
    }
    with zstd.open(path, "wb", options=settings) as out:
        for fragment in fragments:
            out.write(to_line(fragment))


def _bytes_in(path: Path) -> int:
    return sum(p.stat().st_size for p in [path, *path.rglob("*")] if p.is_file())


if __name__ == "__main__":
    main()
