"""`kbforge train-attributes`: learns how records of one entity differ, without labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import UsageError, quoted
from kbforge_training.cli import Inputs, LimitPerFile, Output, read_all

app = typer.Typer(add_completion=False)

_SHOWN = 0.03
"""The table sums up weights below this; the rates file has all of them."""


@app.command()
def train_attributes(
    fragments: Inputs,
    output: Output,
    labels: Annotated[bool, option("--labels", "Learn the rates from the gold labels.")] = False,
    kind: Annotated[
        list[str] | None,
        option(
            "--kind",
            "Kind of an attribute: text, title, date, month first (of dates), code, number, "
            "category, set, email, phone or nothing (not read). May be repeated.",
            metavar="ATTRIBUTE=KIND",
        ),
    ] = None,
    limit: LimitPerFile = None,
    json: options.Json = False,
) -> None:
    """Learn how records of one entity differ, without labels.

    It groups a sample, learns from the groups how often a value of each attribute is a copy, a
    typo, a variant or unrelated, and repeats this. The table shows what was learned; repeats is how
    often a second record has the same value as the first one, 1 / (1 + concentration).
    MODEL/rates.toml has all figures; you can edit a copy and use it with --set
    likelihood.rates=FILE.

    If there are labels, they measure the index; with --labels, the rates are learned from them.

    Examples:

        kbforge train-attributes people.jsonl -o model/

        kbforge train-attributes people.jsonl --kind postcode=code -o model/

        kbforge cluster people.jsonl --likelihood model/ -o kb.jsonl
    """
    from kbforge.files.io import require_apart
    from kbforge_training.attributes import train

    require_apart(output, fragments, whole=True)
    kinds = _kinds(kind or [])
    read = list(read_all(fragments, limit))
    with console.working("learning"):
        trained = train(read, output, kinds, labels)
    if json:
        console.print_json({"model": str(output), **trained})
    else:
        _print(trained, output)


def _kinds(texts: list[str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for text in texts:
        attribute, equals, kind = text.rpartition("=")
        if not equals or not attribute:
            raise UsageError(f'--kind: expected ATTRIBUTE=KIND, got "{quoted(text)}"')
        if attribute in out:
            raise UsageError(f'--kind: the attribute "{quoted(attribute)}" is named twice')
        out[attribute] = kind
    return out


def _print(trained: Mapping[str, Any], output: Path) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("attribute", "kind"):
        table.add_column(title)
    for title in ("values", "copy", "unrelated"):
        table.add_column(title, justify="right")
    table.add_column("slips and variants")
    table.add_column("repeats", justify="right")
    for name, rates in trained["attributes"].items():
        weights = dict(rates["weights"])
        copy, noise = weights.pop("copy"), weights.pop("noise")
        table.add_row(
            Text(quoted(name, 40)),
            rates["kind"],
            f"{rates['values']:,}",
            _share(copy),
            _share(noise),
            Text(_variants(weights)),
            f"{1 / (1 + rates['concentration']):.1%}",
        )
    console.stdout().print(table)
    source = "gold clusters" if trained["labelled"] else "a sample, without labels"
    console.note(
        f"{output}: learned from {source}: {trained['sample']:,} of "
        f"{trained['fragments']:,} fragments; alpha {trained['alpha']:,.4g}"
    )
    if index := trained["index"]:
        console.note(
            f"index: finds the right one of {index['entities']:,} entities for "
            f"{index['recall']:.2%} of the fragments that have an earlier one, "
            f"with {index['candidates']:.1f} comparisons on average"
        )


def _variants(weights: dict[str, float]) -> str:
    """The large components, most frequent first, and the sum of the others."""
    ranked = sorted(weights.items(), key=lambda item: -item[1])
    shown = [f"{part} {_share(weight)}" for part, weight in ranked if weight >= _SHOWN]
    rest = sum(weight for weight in weights.values() if weight < _SHOWN)
    return ", ".join([*shown, f"others {_share(rest)}"] if rest else shown)


def _share(weight: float) -> str:
    return f"{weight:.1%}"
