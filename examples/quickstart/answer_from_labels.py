"""Answers the questions of `kbforge review` from labels, some of them wrongly.

    kbforge review people.jsonl --answerer "python answer_from_labels.py people.jsonl --wrong 0.05"

It reads a line of JSON a question and writes one an answer, as docs/answerers.md says. Replace
`answer` by a call of your language model, rule or crowd. Which answers are wrong depends on the
pair and the seed: asked again, the program says the same, as a language model would.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from typing import Any


def main() -> None:
    """Answer until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fragments", help="JSON lines with id and label")
    parser.add_argument("--wrong", type=float, default=0.0, help="share of wrong answers")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with open(options.fragments, encoding="utf-8") as lines:
        fragments = [json.loads(line) for line in lines]
    labels = {one["id"]: one.get("label") for one in fragments}
    for line in sys.stdin:
        question = json.loads(line)
        if question["version"] != 1:
            sys.exit(f"expected version 1 of the protocol, got {question['version']}")
        same = answer(question, labels, options.wrong, options.seed)
        print(json.dumps({"question": question["question"], "same": same}), flush=True)


def answer(
    question: dict[str, Any], labels: dict[str, str | None], wrong: float, seed: int
) -> bool | None:
    """Whether the two fragments have one label; None if one has no label."""
    a, b = sorted((question["a"]["id"], question["b"]["id"]))
    one, other = labels.get(a), labels.get(b)
    if one is None or other is None:
        return None
    errs = random.Random(f"{seed} {a} {b}").random() < wrong
    return (one == other) != errs


if __name__ == "__main__":
    main()
