"""The options that several verbs share, and the choices that they stand for.

`further` marks the rarely used ones. The help of a verb with more than a dozen options leaves them
out, and `--help-all` shows them (`kbforge.cli.main`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

if TYPE_CHECKING:
    from kbforge.contracts import Fragment
    from kbforge.fit.choices import Choices

FURTHER = "Further options"
"""The panel of the options that are rarely used."""

_KINDS = ("likelihood", "surrogate", "index", "clusterer", "calibrator")


def option(*words: str, **settings: Any) -> Any:
    """A `typer.Option`: its names, then its help."""
    *names, text = words
    return typer.Option(*names, help=text, **settings)


def further(*words: str, **settings: Any) -> Any:
    """An option that is rarely used."""
    return option(*words, rich_help_panel=FURTHER, **settings)


Likelihood: TypeAlias = Annotated[
    str | None,
    option(
        "--likelihood",
        "Name of a likelihood, or a model folder.",
        show_default="chosen to suit the file",
    ),
]
Clusterer: TypeAlias = Annotated[
    str,
    further("--clusterer", "Clustering algorithm: split-smc, smc, greedy or a plugin's."),
]
Particles: TypeAlias = Annotated[
    int | None,
    further(
        "--particles",
        "-P",
        "Maximum particles per subproblem.",
        min=1,
        show_default="the clusterer's",
    ),
]
Surrogate: TypeAlias = Annotated[
    str | None,
    further(
        "--surrogate",
        "Fast likelihood that proposes clusters for a slow one.",
        show_default="the likelihood's own, if any",
    ),
]
MaxEvals: TypeAlias = Annotated[
    int | None,
    further(
        "--max-evals",
        "-M",
        "Maximum joins that the surrogate proposes per step.",
        min=0,
        show_default="the clusterer's",
    ),
]
Index: TypeAlias = Annotated[
    str | None,
    further(
        "--index",
        "Index that finds the clusters to compare a fragment with; none compares with all.",
        show_default="the likelihood's own, if any",
    ),
]
Exact: TypeAlias = Annotated[
    bool,
    further(
        "--exact",
        "Compare with every cluster that shares a key, or with every cluster if the "
        "likelihood has no index. Slower.",
    ),
]
Alpha: TypeAlias = Annotated[
    float | None,
    option(
        "--alpha",
        "Concentration; a larger one makes more entities.",
        show_default="chosen to suit the file",
    ),
]
Calibration: TypeAlias = Annotated[
    str | None,
    further("--calibration", "Take alpha from this file, which kbforge calibrate wrote."),
]
ConfidenceMap: TypeAlias = Annotated[
    str | None,
    further(
        "--confidence-map",
        "Calibrate confidence by this file, which kbforge calibrate --confidence wrote.",
    ),
]
Answers: TypeAlias = Annotated[
    str | None,
    option(
        "--answers",
        "Answers that kbforge review collected: kbforge cluster honours them, and they choose "
        "likelihood and alpha.",
    ),
]
Fragments: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="Fragments, JSON lines; or a table: .csv, .tsv, .xlsx, .parquet, or what else kbforge "
        "load takes by its ending; - for standard input."
    ),
]
IdColumn: TypeAlias = Annotated[
    str | None,
    option(
        "--id",
        "Column of a table's ids; --set source.OPTION=VALUE sets what else kbforge load can.",
        show_default="a column called id, if safe",
    ),
]
Against: TypeAlias = Annotated[
    str | None,
    option(
        "--against",
        "Known entities, which are never merged: fragments (those of one label are one entity), a "
        "knowledge base or a table. Each takes in what belongs to it; the rest forms new entities.",
        metavar="AUTHORITY",
    ),
]
AllKnown: TypeAlias = Annotated[
    bool,
    further(
        "--all-known",
        "With --against: also write the known entities that took in nothing.",
    ),
]
Seed: TypeAlias = Annotated[int, further("--seed", "Random seed.", min=0)]
Limit: TypeAlias = Annotated[
    int | None, further("--limit", "Read at most this many fragments.", min=1)
]
Gpu: TypeAlias = Annotated[bool, option("--gpu", "Run neural likelihoods on the GPU.")]
Settings: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--set",
        "Set an option of a plugin, such as likelihood.scale=2; may be repeated. "
        "kbforge plugins show lists them.",
        metavar="KIND.OPTION=VALUE",
    ),
]
Store: TypeAlias = Annotated[
    str, typer.Argument(help="Store, which kbforge cluster --into creates.")
]
KnowledgeBase: TypeAlias = Annotated[
    str, typer.Argument(help="Knowledge base: JSON lines or a store; - for standard input.")
]
Json: TypeAlias = Annotated[bool, option("--json", "Print one JSON object.")]


def choices_of(context: typer.Context) -> Choices:
    """The user's choices, by the options that the verb has; defaults for the others.

    `--set` reaches the kinds of plugin that the verb has an option for, and the source of a table
    (`source_options`).
    """
    from kbforge.fit.choices import Choices
    from kbforge.registry.options import parse_settings

    given = context.params
    chosen = {one.name: given[one.name] for one in fields(Choices) if one.name in given}
    if "gpu" in given:
        chosen["device"] = device_of(given["gpu"])
    kinds = [kind for kind in _KINDS if kind in given]
    parsed = parse_settings(given["settings"] or (), [*kinds, *["source"] * ("id_column" in given)])
    parsed.pop("source", None)
    return Choices(**chosen, options=parsed)


def read(context: typer.Context, path: str) -> Iterator[Fragment]:
    """The fragments of a file, as the verb's options say; notes tell what a table was taken for."""
    from kbforge.cli import console
    from kbforge.files.fragments import read_fragments

    limit = context.params.get("limit")
    return read_fragments(path, limit, source_options(context), console.remark)


def source_options(context: typer.Context) -> dict[str, object]:
    """The options of the source that reads a table: `--set source.OPTION=VALUE`, and `--id`."""
    from kbforge.registry.options import parse_settings

    settings = context.params["settings"] or ()
    of_source = [setting for setting in settings if setting.startswith("source.")]
    found: dict[str, object] = {**parse_settings(of_source, ["source"])["source"]}
    if isinstance(column := context.params["id_column"], str):
        found["id"] = column
    return found


def device_of(gpu: bool) -> str:
    """The device that `--gpu` chooses, if it is usable."""
    from kbforge.models.bundle import require_device

    device = "cuda" if gpu else "cpu"
    require_device(device)
    return device


def files_of(settings: Iterable[str] | None, *models: str | None) -> list[str]:
    """The files that values of `--set` and models may name."""
    from kbforge.models.bundle import is_name

    values = [setting.partition("=")[2] for setting in settings or ()]
    return [*values, *(model for model in models if model is not None and not is_name(model))]


def first_given(context: typer.Context, names: Iterable[str]) -> str | None:
    """The first of these parameters that the command line sets, as the user types it."""
    wanted = set(names)
    for parameter in context.command.params:
        if parameter.name in wanted and is_given(context, parameter.name):
            argument = parameter.param_type_name == "argument"
            return parameter.name.upper() if argument else str(parameter.opts[0])
    return None


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the command line sets a parameter."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
