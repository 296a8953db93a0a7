"""What a language model of sets has learned: nats of held-out text, and who is who.

    python examples/reproductions/lm_corpus.py corpus
    KBFORGE_DATA=... python examples/reproductions/lm_quality.py MODEL... \\
        --train corpus/train.jsonl --held-out corpus/dev.jsonl [--json results.json]

A MODEL is a likelihood that reads the whole text of a set: a registered name (`gpt`) or a bundle.

The first table has the nats a fragment of held-out entities, one by one and in sets that the
published rule draws, beside a byte 5-gram model (`byte_ngram`), whose training sets are drawn by
the published rule or by that of --recipe. The second has the area under the ROC curve of telling
one entity from two namesakes (`entity_pairs`) on the confusable dev sets, beside the bigram model
of names fitted to each file.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from byte_ngram import ByteNgram
from entity_pairs import Pair, area, draw_pairs, gains, namesakes
from shell import data_folder, table

from kbforge.contracts import Fragment, Likelihood
from kbforge.files.fragments import read_fragments
from kbforge.models.bundle import make_likelihood
from kbforge_grammars import grammar as grammar_called
from kbforge_training.lm.data import Entity, SetRule, by_entity, draw
from kbforge_training.lm.train import read_recipe

BASELINE = "byte 5-gram"
SURROGATE = "bigram"
FAMILIES = ("dwie50_dev", "dwie100_dev", "wd50_dev", "wd200_dev")
SEED = 0

Record = dict[str, Any]


def entities_of(path: Path) -> list[Entity]:
    return by_entity(read_fragments(str(path)))[0]


def drawn(entities: Sequence[Entity], rule: SetRule) -> Iterator[list[Fragment]]:
    """The sets that a rule draws from entities."""
    rng = np.random.default_rng(SEED)
    for entity in entities:
        yield from draw(entity, rule, rng)


def source(fragments: Sequence[Fragment]) -> str:
    """Where a set is from; an entity has fragments of several sources if it is well known."""
    sources = {(fragment.source or "").split("/")[0] for fragment in fragments}
    return sources.pop() if len(sources) == 1 else "several"


def nats(models: Mapping[str, Likelihood], held_out: Sequence[Entity]) -> list[Record]:
    """The nats of the models on held-out sets, by source."""
    kinds = {
        "one by one": [[fragment] for entity in held_out for fragment in entity],
        "drawn": list(drawn(held_out, SetRule())),
    }
    records = []
    for kind, sets in kinds.items():
        scores = {name: np.asarray(model.log_marginal(sets)) for name, model in models.items()}
        groups: dict[str, list[int]] = defaultdict(list, {"all": list(range(len(sets)))})
        for number, fragments in enumerate(sets):
            groups[source(fragments)].append(number)
        for group, numbers in groups.items():
            n = sum(len(sets[number]) for number in numbers)
            record = {"fragments": kind, "source": group, "sets": len(numbers), "n": n}
            record["nats"] = {name: float(-s[numbers].sum()) for name, s in scores.items()}
            records.append(record)
    return records


def pairs(models: Mapping[str, Likelihood], family: str, wanted: int) -> list[Record]:
    """The areas of the models on one family."""
    path = data_folder() / f"confusable/{family}.jsonl"
    entities = entities_of(path)
    found = draw_pairs(entities, wanted, SEED)
    surrogate = make_likelihood(SURROGATE)
    surrogate.fit([fragment for entity in entities for fragment in entity])
    kinds = {
        "all": list(range(len(found))),
        "unequal": [k for k, pair in enumerate(found) if not pair.is_equal],
        "disjoint": [k for k, pair in enumerate(found) if not pair.is_overlapping],
    }
    records = []
    for name, model in {SURROGATE: surrogate, **models}.items():
        record: Record = {"set": family, "model": name, "namesakes": len(namesakes(entities))}
        for score, values in zip(("gain", "by fragment"), gains(model, found), strict=True):
            record[score] = {
                kind: dataclasses.asdict(area([found[k] for k in numbers], values[numbers], SEED))
                for kind, numbers in kinds.items()
                if _both_sides([found[k] for k in numbers])
            }
        records.append(record)
    return records


def _both_sides(chosen: Sequence[Pair]) -> bool:
    return len(Counter(pair.is_positive for pair in chosen)) == 2


def nats_table(records: Sequence[Record]) -> str:
    models = list(records[0]["nats"])[1:]
    head = ["fragments", "source", "sets", "fragments", f"{BASELINE}, nats a fragment"]
    head += [word for name in models for word in (name, "fewer")]
    rows = []
    for record in records:
        n, values = record["n"], record["nats"]
        row = [record["fragments"], record["source"], f"{record['sets']:,}", f"{n:,}"]
        row.append(f"{values[BASELINE] / n:.2f}")
        for name in models:
            fewer = 1 - values[name] / values[BASELINE]
            row += [f"{values[name] / n:.2f}", f"{100 * fewer:.1f} %"]
        rows.append(row)
    return table(head, rows)


def pairs_table(records: Sequence[Record]) -> str:
    head = ["set", "model", "pairs", "AUC of the gain", "95 %", "parts unequal"]
    head += ["no fragment in both", "pairs", "AUC of nats a fragment"]
    rows = []
    for record in records:
        gain, whole = record["gain"], record["by fragment"]["all"]
        every, unequal, disjoint = (gain.get(k) for k in ("all", "unequal", "disjoint"))
        rows.append(
            [
                record["set"],
                record["model"],
                f"{every['positives']} + {every['negatives']}",
                f"{every['auc']:.3f}",
                f"{every['low']:.3f}-{every['high']:.3f}",
                f"{unequal['auc']:.3f}" if unequal else "",
                f"{disjoint['auc']:.3f}" if disjoint else "",
                f"{disjoint['positives']} + {disjoint['negatives']}" if disjoint else "",
                f"{whole['auc']:.3f}",
            ]
        )
    return table(head, rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="likelihood names or bundles")
    parser.add_argument("--train", type=Path, required=True, help="for the 5-gram model")
    parser.add_argument("--held-out", type=Path, required=True)
    parser.add_argument("--recipe", help="draw the 5-gram model's sets by this recipe's rule")
    parser.add_argument("--pairs", type=int, default=500, help="positives, and as many negatives")
    parser.add_argument("--json", type=Path, help="write the records here")
    options = parser.parse_args()
    rule = read_recipe(options.recipe).sets if options.recipe else SetRule()
    grammar = grammar_called("canonical-json")
    baseline = ByteNgram.trained(grammar, drawn(entities_of(options.train), rule))
    alone = {"surrogate_weight": 0.0}
    models = {name: make_likelihood(name, alone) for name in options.models}
    models = {BASELINE: baseline, **models}
    text = nats(models, entities_of(options.held_out))
    print(nats_table(text), end="\n\n", flush=True)
    who = [record for family in FAMILIES for record in pairs(models, family, options.pairs)]
    print(pairs_table(who))
    if options.json:
        options.json.write_text(json.dumps({"nats": text, "pairs": who}, indent=1))


if __name__ == "__main__":
    main()
