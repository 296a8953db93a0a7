"""The corpus of the default language model, from the collection of labelled fragments.

    KBFORGE_DATA=... python examples/reproductions/lm_corpus.py OUT [--everything] [--generated N]

writes OUT/train.jsonl and OUT/dev.jsonl, without the parts whose licences forbid shipping what is
trained on them (WebNLG, DWIE), unless --everything asks for a model to be measured only. KAMEL's
values that are a Python dictionary of a name and its alternatives become the name; where it is the
entity's own name, each alternative becomes a fragment of the entity. Entities from running text,
which is what clustering sees, are few and written five times. --generated adds N made-up files of
people, organisations and products to train.jsonl.
"""

from __future__ import annotations

import argparse
import ast
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from kbforge.contracts import Fragment
from kbforge.files.fragments import read_fragments, write_fragments
from kbforge_lab.training.defaults.families import generated_files

NOT_SHIPPED = ("webnlg/", "dwie/")
SEED = 0
RUNNING_TEXT, TIMES = ("fewrel/", "knowledgenet/", "dwie/"), 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--everything", action="store_true")
    parser.add_argument("--generated", type=int, default=0, metavar="N")
    options = parser.parse_args()
    data = Path(os.environ["KBFORGE_DATA"]) / "lm_corpus"
    options.out.mkdir(parents=True, exist_ok=True)
    for part in ("train", "dev"):
        times = TIMES if part == "train" else 1
        kept = corpus(data / f"lm_{part}.jsonl.gz", options.everything, times)
        if part == "train":
            kept = chain(kept, generated(options.generated))
        write_fragments(kept, options.out / f"{part}.jsonl")
        print(f"wrote {options.out / part}.jsonl")


def corpus(path: Path, everything: bool, times: int) -> Iterator[Fragment]:
    for fragment in read_fragments(str(path)):
        source = fragment.source or ""
        if source.startswith(NOT_SHIPPED) and not everything:
            continue
        for plain in unwrapped(fragment):
            yield plain
            for copy in range(2, times + 1) if source.startswith(RUNNING_TEXT) else ():
                label = None if plain.label is None else f"{plain.label}#{copy}"
                yield replace(plain, id=f"{plain.id}#{copy}", label=label)


def generated(files: int) -> Iterator[Fragment]:
    """Fragments of made-up files."""
    for name, fragments in generated_files(files, SEED):
        for one in fragments:
            yield replace(one, id=f"{name}/{one.id}", label=f"{name}/{one.label}", source=name)


def unwrapped(fragment: Fragment) -> Iterator[Fragment]:
    """The fragment with plain values, then one a name that KAMEL held as an alternative."""
    properties, others = {}, []
    for attribute, values in fragment.properties.items():
        plain = [names(value) for value in values]
        properties[attribute] = tuple(dict.fromkeys(ways[0] for ways in plain))
        if attribute == "name":
            others = [name for ways in plain for name in ways[1:]]
    label = fragment.label
    if label is not None and label.startswith("kamel:"):
        label = "kamel:" + names(label.removeprefix("kamel:"))[0]
    yield replace(fragment, properties=properties, label=label)
    for number, name in enumerate(dict.fromkeys(others)):
        yield Fragment(
            f"{fragment.id}-{number}", {"name": (name,)}, label=label, source=fragment.source
        )


def names(value: str) -> list[str]:
    """The name that a value stands for, then its alternatives."""
    if not (value.startswith("{'") and value.endswith("}")):
        return [value]
    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return [value]
    ways = [found.get("rdf"), found.get("chosen"), *found.get("alternative", [])]
    return [way for way in dict.fromkeys(ways) if way] or [value]


if __name__ == "__main__":
    main()
