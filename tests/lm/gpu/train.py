"""`make gpu-train`: trains the likelihood `gpt` on a GPU within minutes, and measures it.

    python -m tests.lm.gpu.train [--scale .01] [--minutes 6] [--out build/gpu] [--from MODEL]

It trains by the recipe h100 on what `make gpu-pack` packed, so that the learning rate has fallen
when the minutes are over, and measures the new model on the confusable sets beside `bigram`,
`pairs` and the model that ships. OUT gets:

    train.json               what was trained, how fast, and what it reaches
    train.log                what the training said
    model.tar.0.xz, ...      the bundle in parts of some megabytes:
                             xz -dc model.tar.?.xz | tar -x

A bundle can be trained on with --from, on another day, too. --scale .01 shows that all of this
works: a hundredth of the tokens, of the fragments and of the parameters, in two minutes on a CPU,
without the model that ships.
"""

import argparse
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

from tests.lm.gpu import bare
from tests.lm.gpu.measure import ALONE, BASELINES, FAMILIES

RECIPE = "h100"
ALL_FRAGMENTS = 800_000  # about as many as the corpus has
SECONDS = 570.0  # of the whole, at most; what is not measured by then is left out
PARTS = 4
# two bytes a number, as bfloat16 has
XZ = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 2, "lp": 1, "pb": 1}]

Row = dict[str, Any]


def main() -> None:
    """Train, measure, pack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the size, at most 1")
    parser.add_argument("--minutes", type=float, help="of training; 6, or .75 at a smaller scale")
    parser.add_argument("--out", type=Path, default=bare.ROOT / "build" / "gpu")
    parser.add_argument("--pack", type=Path, default=bare.PACK)
    parser.add_argument("--work", type=Path, default=bare.ROOT / "build" / "gpu-train")
    parser.add_argument("--from", dest="start", help="go on from this bundle")
    options = parser.parse_args()
    if not 0 < options.scale <= 1:
        parser.error("--scale: expected a number above 0, at most 1")
    if options.start and options.work.resolve() in Path(options.start).resolve().parents:
        parser.error(f"--from: expected a bundle outside {options.work}, which is emptied first")
    deadline = time.monotonic() + SECONDS
    bare.enter(options.pack)
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    options.out.mkdir(parents=True, exist_ok=True)
    model, whole = options.work / "model", options.scale == 1
    report: Row = {**about(), "scale": options.scale}
    report["minutes"] = options.minutes or (6.0 if whole else 0.75)
    train = [str(options.pack / "train.jsonl.zst"), "--dev", str(options.pack / "dev.jsonl.zst")]
    train += ["--recipe", RECIPE if whole else recipe(options.scale, options.work)]
    train += [] if whole else ["--limit", str(max(2_000, round(ALL_FRAGMENTS * options.scale)))]
    train += ["--minutes", str(report["minutes"]), "--checkpoint-minutes", "2"]
    train += ["--from", options.start] if options.start else []
    report |= trained([*train, "-o", str(model)], model, options.out / "train.log")
    keep(report, options.out)
    packed(model, options.out)
    first = None if whole else max(30, round(2_000 * options.scale))
    report["sets"] = measurements(options.pack, model, first, deadline)
    report["seconds"] = time.monotonic() + SECONDS - deadline
    keep(report, options.out)
    print(json.dumps(report, indent=1))


def on_gpu() -> bool:
    """Whether there is a GPU."""
    import torch

    return torch.cuda.is_available()


def about() -> Row:
    """The machine."""
    import torch

    name = torch.cuda.get_device_name() if on_gpu() else "cpu"
    return {"device": name, "cores": os.cpu_count(), "torch": torch.__version__}


def keep(report: Row, out: Path) -> None:
    """Write the report, so that what is known stays even if this process is killed."""
    (out / "train.json").write_text(json.dumps(report, indent=1), encoding="utf-8")


def trained(options: list[str], model: Path, log: Path) -> Row:
    """Train the model, and say what `train-lm` says and how fast it was."""
    command = [sys.executable, "-m", "kbforge", "train-lm", *options, "--json"]
    command += ["--gpu"] if on_gpu() else []
    begin = time.monotonic()
    with log.open("w", encoding="utf-8") as told:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=told, text=True, check=False)
    if done.returncode:
        sys.exit(f"train-lm failed:\n{log.read_text(encoding='utf-8')}")
    said: Row = json.loads(done.stdout)
    lines = (model / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    first, last = json.loads(lines[0]), json.loads(lines[-1])
    # without the first step, which compiles
    rate = (last["tokens"] - first["tokens"]) / max(last["seconds"] - first["seconds"], 1e-9)
    return {
        **said,
        "train_seconds": last["seconds"],
        "first_step_seconds": first["seconds"],
        "tokens_per_second": rate,
        # six operations a parameter and token, forth and back
        "tflops": 6e-12 * said["parameters"] * rate,
        "command_seconds": time.monotonic() - begin,
    }


def recipe(scale: float, folder: Path) -> str:
    """The file of a recipe with a part of the tokens and about that part of the parameters."""
    from kbforge_training.lm.train import read_recipe

    whole = read_recipe(RECIPE)
    heads = max(1, round(whole.shape.n_heads * scale ** (1 / 3)))
    width = whole.shape.d_model // whole.shape.n_heads
    smaller = {
        "tokens": round(whole.schedule.tokens * scale),
        "pieces": max(400, round(whole.pieces * scale**0.5)),
        "calibrate": max(20, round(whole.calibrate * scale**0.5)),
        "n_heads": heads,
        "d_model": heads * width,
        "d_ff": 3 * heads * width,
        "n_layers": max(2, round(whole.shape.n_layers * scale ** (1 / 4))),
        "batch_tokens": max(2_048, round(whole.schedule.batch_tokens * scale**0.5)),
        "accumulate": 1,
        "per_step": max(4, round(whole.pairs.per_step * scale**0.5)),
    }
    recipes = bare.ROOT / "training" / "kbforge_training" / "recipes"
    text = (recipes / f"{RECIPE}.toml").read_text(encoding="utf-8")
    for name, value in smaller.items():
        text = re.sub(rf"(?m)^{name} = .*$", f"{name} = {value}", text)
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def measurements(pack: Path, model: Path, first: int | None, deadline: float) -> list[Row]:
    """Rows of all sets and likelihoods; those that are not ready in time say so."""
    path = pack / "baselines.json"
    known = path.is_file() and first is None
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8")) if known else []
    families = [f for f in FAMILIES if (pack / f"{f}_dev.jsonl").is_file()]
    if first is not None:
        families = families[:2]
    # the model that ships is as slow on a small scale as on a large one
    others = [] if known else [name for name in BASELINES if first is None or "gpt" not in name]
    likelihoods = [str(model), f"{model}{ALONE}", *others]
    asked = [(family, name) for name in likelihoods for family in families]
    on = ["--gpu"] if on_gpu() else []
    on += ["--first", str(first)] if first is not None else []

    def one(task: tuple[str, str]) -> Row:
        family, likelihood = task
        command = [sys.executable, "-m", "tests.lm.gpu.measure", str(pack), family, likelihood]
        row: Row = {"family": family}
        left = max(0.1, deadline - time.monotonic())
        try:
            done = subprocess.run(
                [*command, *on], capture_output=True, text=True, check=True, timeout=left
            )
            row = json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            row["failed"] = "no time was left"
        except subprocess.CalledProcessError as error:
            row["failed"] = error.stderr.strip()[-2_000:]
        return row | {"likelihood": likelihood.replace(str(model), "new")}

    # a process asks the GPU for little at a time, so several share it
    with ThreadPoolExecutor(8 if on_gpu() else 1) as beside:
        return rows + list(beside.map(one, asked))


def packed(bundle: Path, out: Path) -> None:
    """The bundle as an archive in parts, each an xz file of its own."""
    archive = BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(bundle, arcname="model")
    content = archive.getvalue()
    size = -(-len(content) // PARTS)
    with ThreadPoolExecutor(PARTS) as beside:
        parts = beside.map(
            lambda n: lzma.compress(content[n * size : (n + 1) * size], filters=XZ), range(PARTS)
        )
        for number, part in enumerate(parts):
            (out / f"model.tar.{number}.xz").write_bytes(part)


if __name__ == "__main__":
    main()
