"""Two versions of KBForge side by side: does each command write the same bytes?

    python examples/reproductions/same_bytes.py record OLD/.venv/bin/kbforge old.json
    python examples/reproductions/same_bytes.py record NEW/.venv/bin/kbforge new.json
    python examples/reproductions/same_bytes.py compare old.json new.json

A recording runs every case in a new folder and keeps digests of what was printed and of every file
that was written, without what a clock says. Cases: the commands of the README of the version that
holds this script, on its own example data; the Gaussian benchmark in its three published orders;
and, with KBFORGE_DATA, every labelled set of up to 10,000 fragments, with several models and
methods. Cases that a recording has are not run again. `--only WORD` records the cases whose name
has the word.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import gaussian

ROOT = Path(__file__).resolve().parent.parent.parent
MOST = 10_000
# what a clock says
PARTS = ("reading", "preparing", "clustering", "writing")
TIMES = {"seconds", "seconds_cpu", "created", "clustered_per_second"}
TIMES |= {f"seconds_{part}" for part in PARTS}

Case: TypeAlias = list[list[str]]
"""Commands without the program's name, run in one folder after another."""

_NGRAM = "name,occupation,born,birthplace,employer,country,region,industry,headquarters,founded"
_GAUSSIAN = [w for k, v in gaussian.PRIOR.items() for w in ("--set", f"likelihood.{k}={v}")]


def cluster(fragments: object, *options: object, out: str = "kb.jsonl") -> list[str]:
    """A clustering whose summary is printed."""
    return ["cluster", str(fragments), "-o", out, "--json", *map(str, options)]


def readme_cases() -> Iterator[tuple[str, Case]]:
    """The commands of the README and of the pages it leads to."""
    quickstart, people = ROOT / "examples/quickstart", ROOT / "examples/people/people.csv"
    mentions, train = str(quickstart / "mentions.csv"), str(quickstart / "train.jsonl")
    columns = ["--id", "id", "--label", "label", "--separator", "|"]
    model = ["--likelihood", "model"]
    yield (
        "readme: the demo by hand",
        [
            ["load", "csv", mentions, *columns, "-o", "f.jsonl"],
            ["train-ngram", train, "-o", "model", "--attributes", _NGRAM],
            ["calibrate", train, *model, "-o", "calibration.toml"],
            cluster("f.jsonl", *model, "--set", "calibration=calibration.toml"),
            ["evaluate", "kb.jsonl", "f.jsonl", "--json"],
            ["show", "kb.jsonl", "--top", "3"],
            ["export", "kb.jsonl", "--format", "csv", "-o", "kb.csv"],
            ["calibrate", "f.jsonl", *model, "--confidence", "-o", "map.toml", "--json"],
            cluster("f.jsonl", *model, "--set", "confidence-map=map.toml", out="mapped.jsonl"),
            ["lab", "sample", "confusable", "f.jsonl", "--entities", "5", "-o", "hard"],
        ],
    )
    for calibrator in ("bcubed", "pseudo-likelihood"):
        line = ["calibrate", train, "--likelihood", "bigram", "--calibrator", calibrator]
        yield f"readme: calibrate {calibrator}", [[*line, "-o", "c.toml"]]
    yield (
        "readme: a table of people",
        [
            ["load", "csv", str(people), "--id", "id", "-o", "f.jsonl"],
            cluster("f.jsonl"),
            ["show", "kb.jsonl"],
            ["explain", "kb.jsonl", "--fragment", "14"],
            ["train-attributes", "f.jsonl", "-o", "model"],
            cluster("f.jsonl", *model, out="by-model.jsonl"),
            ["explain", "by-model.jsonl", *model, "--rivals", "3", "-o", "explained.jsonl"],
        ],
    )
    yield "readme: plugins", [["plugins", "show", "likelihood", "gaussian"]]
    yield (
        "readme: a tiny language model",
        [
            ["train-lm", train, "--recipe", "tiny", "-o", "model"],
            cluster(train, "--likelihood", "model", "--limit", "60"),
        ],
    )
    yield (
        "readme: the shipped language model",
        [cluster(train, "--likelihood", "gpt", "--limit", "60")],
    )


def gaussian_cases(folder: Path) -> Iterator[tuple[str, Case]]:
    """The published orders, by every method that reads vectors."""
    model = ["--likelihood", "gaussian", "--alpha", 20, *_GAUSSIAN]
    methods: dict[str, list[object]] = {
        "greedy": [],
        "smc": [],
        "split-smc": [],
        "gibbs": ["--set", "clusterer.sweeps=5"],
        "metropolis": ["--set", "clusterer.sweeps=5", "--set", "surrogate=gaussian"],
        "agglomerative": [],
    }
    for order in ("0", "1", "2"):
        points = str(gaussian.points_in_order(folder, order))
        load = ["load", "csv", points, *gaussian.LOAD, "-o", "f.jsonl"]
        for name, options in methods.items():
            job = cluster("f.jsonl", *model, "--set", f"clusterer={name}", *options)
            yield f"gauss {order}: {name}", [load, job]
    few = ["--set", "particles=20", "--seed", 3]
    others: dict[str, list[object]] = {
        **{f"resampler={n}": few for n in ("multinomial", "stratified", "optimal")},
        "merge=multinomial": few,
        "weights=marginal": [],
        "floor=1e-4": [],
    }
    for setting, options in others.items():
        job = cluster("f.jsonl", *model, *options, "--set", f"clusterer.{setting}")
        yield f"gauss: {setting}", [load, job]
    small = ["--likelihood", "diffusion", "--limit", 40]
    yield "gauss: diffusion", [load, cluster("f.jsonl", *small)]


def labelled_sets(data: Path) -> Iterator[tuple[str, Path, int]]:
    """Every labelled set of at most `MOST` fragments."""
    for path in sorted([*data.glob("*/*.jsonl*"), *data.glob("more/*/*.jsonl*")]):
        if path.parent.name in ("lm_corpus", "rebel"):
            continue
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rb") as lines:
            count = sum(1 for _ in lines)
        if count <= MOST:
            yield path.name.split(".")[0], path, count


def data_cases(data: Path) -> Iterator[tuple[str, Case]]:
    """Real sets: the default, bigrams, and on the smaller ones everything else."""
    for name, path, count in labelled_sets(data):
        judged = ["evaluate", "kb.jsonl", str(path), "--json"]
        yield f"{name}: default", [cluster(path), judged]
        yield f"{name}: bigram", [cluster(path, "--likelihood", "bigram", "--limit", 3000)]
        if count > 1000:
            continue
        for clusterer in ("greedy", "smc"):
            yield f"{name}: {clusterer}", [cluster(path, "--set", f"clusterer={clusterer}")]
        yield (
            f"{name}: gpt",
            [cluster(path, "--likelihood", "gpt", "--limit", 40, "--set", "particles=10")],
        )
        short = ["--limit", 150, "--set", "clusterer.sweeps=3", "--set"]
        for clusterer in ("gibbs", "metropolis"):
            job = cluster(path, "--likelihood", "bigram", *short, f"clusterer={clusterer}")
            surrogate = ["--set", "surrogate=bigram"] if clusterer == "metropolis" else []
            yield f"{name}: {clusterer}", [[*job, *surrogate]]
        job = cluster(path, "--limit", 150, "--set", "clusterer=agglomerative")
        yield f"{name}: agglomerative", [job]
        multinomial = ["--likelihood", "dirichlet-multinomial", "--limit", 300]
        yield f"{name}: dirichlet-multinomial", [cluster(path, *multinomial)]
    for family in ("wd50", "dwie50"):
        train = data / f"confusable/{family}_train.jsonl"
        test = data / f"confusable/{family}_dev.jsonl"
        yield (
            f"{family}: trained on labels",
            [
                ["train-attributes", str(train), "--labels", "-o", "model"],
                cluster(test, "--likelihood", "model"),
                ["evaluate", str(test), "--reliability", "--likelihood", "model", "--json"],
            ],
        )
    documents = str(data / "dwie/dwie_public_traindev.jsonl")
    yield (
        "dwie: sample",
        [["lab", "sample", "confusable", documents, "--entities", "20", "-o", "hard"]],
    )
    rebel = data / "rebel/rebel_1000_docs.jsonl"
    yield "rebel: load", [["load", "rebel", str(rebel), "-o", "f.jsonl"], cluster("f.jsonl")]
    people = data / "splink_hist50k/historical_50k.jsonl.gz"
    yield "splink 5k: default", [cluster(people, "--limit", 5019)]


def recorded(program: str, case: Case) -> dict[str, Any]:
    """Digests of all that the commands print and write."""
    seen: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        environment = {**os.environ, "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
        for number, arguments in enumerate(case):
            done = subprocess.run(
                [program, *arguments],
                cwd=name,
                env=environment,
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            called = f"{number} {arguments[0]}"
            seen[f"{called}: exit code"] = done.returncode
            seen[f"{called}: printed"] = digest(done.stdout)
            if done.returncode:
                seen[f"{called}: said"] = done.stderr.decode(errors="replace")
        for path in sorted(Path(name).rglob("*")):
            if path.is_file():
                seen[str(path.relative_to(name))] = digest(path.read_bytes())
    return seen


def digest(content: bytes) -> str:
    """Of the content, or of its JSON without what a clock says."""
    try:
        value = json.loads(content)
    except ValueError:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha256(json.dumps(timeless(value)).encode()).hexdigest()


def timeless(value: Any) -> Any:
    """A JSON value without what a clock says."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in TIMES}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def record(program: str, target: Path, only: str) -> None:
    """Run every case that the recording does not have yet."""
    program = str(Path(program).absolute())
    known: dict[str, Any] = json.loads(target.read_text()) if target.exists() else {}
    data = os.environ.get("KBFORGE_DATA")
    with tempfile.TemporaryDirectory() as name:
        cases = dict(readme_cases())
        if data:
            cases |= dict(gaussian_cases(Path(name)))
            cases |= dict(data_cases(Path(data).absolute()))
        for called, case in cases.items():
            if called in known or only not in called:
                continue
            begin = time.monotonic()
            known[called] = recorded(program, case)
            target.write_text(json.dumps(known, indent=1))
            failed = [k for k, v in known[called].items() if k.endswith("exit code") and v]
            note = f"  failed: {failed}" if failed else ""
            print(f"{called}  {time.monotonic() - begin:.1f} s{note}", file=sys.stderr)


def compare(old: Path, new: Path) -> int:
    """Print what differs, and how many cases and outputs were compared."""
    before, after = json.loads(old.read_text()), json.loads(new.read_text())
    both = [called for called in before if called in after]
    different = 0
    for called in both:
        for output in sorted(before[called].keys() | after[called].keys()):
            if before[called].get(output) != after[called].get(output):
                print(f"{called}: {output} differs")
                different += 1
    outputs = sum(len(after[called]) for called in both)
    print(f"{len(both)} cases, {outputs} outputs, {different} differ")
    return int(different > 0 or not both)


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record")
    recording.add_argument("program")
    recording.add_argument("target", type=Path)
    recording.add_argument("--only", default="")
    comparing = verbs.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    chosen = parser.parse_args()
    if chosen.verb == "record":
        record(chosen.program, chosen.target, chosen.only)
    else:
        sys.exit(compare(chosen.old, chosen.new))


if __name__ == "__main__":
    main()
