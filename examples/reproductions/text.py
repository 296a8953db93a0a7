"""Text accuracy: split SMC with a trained bigram model, tuned on the train sets alone.

    KBFORGE_DATA=... python examples/reproductions/text.py

Counts come from the names of the language-model corpus and of the family's train set, the scale is
the default, alpha is calibrated for B-cubed F1 on the train set. Beside it the model without any
training (its prior fitted to the names of the file it clusters).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from shell import data_folder, kbforge, kbforge_json, table

FAMILIES = ("wd50", "dwie50")
SEARCH = ("--calibrator", "bcubed", "--between", "100,1e9")


def evaluate(train: Path, test: Path, folder: Path, model: list[object]) -> list[str]:
    """Calibrate on train, cluster test: alpha, train and test F1, entities and gold."""
    calibration, kb = folder / "calibration.toml", folder / "kb.jsonl"
    found = kbforge_json("calibrate", train, *model, *SEARCH, "-o", calibration)
    kbforge("cluster", test, *model, "--set", f"calibration={calibration}", "-o", kb)
    scores = kbforge_json("evaluate", kb, test)
    return [
        f"{found['log_alpha']:.2f}",
        f"{found['value']:.4f}",
        f"{scores['bcubed_precision']:.3f}",
        f"{scores['bcubed_recall']:.3f}",
        f"{scores['bcubed_f1_item_mean']:.4f}",
        str(scores["clusters"]),
        str(scores["gold_clusters"]),
    ]


def main() -> None:
    """Print the table."""
    data = data_folder()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for family in FAMILIES:
            train = data / f"confusable/{family}_train.jsonl"
            test = data / f"confusable/{family}_dev.jsonl"
            model = folder / family
            corpus = data / "lm_corpus/lm_train.jsonl.gz"
            kbforge("train-ngram", corpus, train, "--scale", 1, "-o", model)
            trained = evaluate(train, test, folder, ["--likelihood", model])
            rows.append([f"{family}_dev", "trained", *trained])
            fitted = evaluate(train, test, folder, ["--likelihood", "bigram"])
            rows.append([f"{family}_dev", "self-fitted", *fitted])
    head = ["set", "prior", "log alpha", "F1 on train", "precision", "recall", "F1", "entities"]
    print(table([*head, "gold"], rows))


if __name__ == "__main__":
    main()
