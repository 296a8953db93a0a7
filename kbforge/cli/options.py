"""The options that several verbs share, and the choices that they represent.

Rarely used settings have no options of their own: `--set NAME=VALUE` accepts the names in
`OF_A_RUN`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from kbforge import registry
from kbforge.registry.options import bind_options, parse_settings

if TYPE_CHECKING:
    from kbforge.contracts import Fragment
    from kbforge.fit.choices import RunOptions

KINDS = ("likelihood", "surrogate", "index", "clusterer")
"""The kinds of plugin that a clustering uses."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a run by `--set NAME=VALUE`: the form of its value, the default, and the
    help."""

    value: str
    default: str
    help: str


OF_A_RUN = {
    "clusterer": Setting(
        "NAME",
        "batch",
        "Clustering algorithm: batch, split-smc, smc, greedy or a plugin's.",
    ),
    "particles": Setting("N", "the clusterer's", "Maximum number of particles per subproblem."),
    "surrogate": Setting(
        "NAME", "the likelihood's", "Fast likelihood that proposes clusters for a slow one."
    ),
    "max-evals": Setting(
        "N", "the clusterer's", "Maximum number of joins that the surrogate proposes per step."
    ),
    "index": Setting(
        "NAME",
        "the likelihood's",
        "Index that finds the clusters to compare a fragment with; none compares with all.",
    ),
    "exact": Setting(
        "true|false",
        "false",
        "Compare with every cluster that shares a key, or with every cluster if the likelihood "
        "has no index. Slower.",
    ),
    "size-exponent": Setting(
        "X",
        "1; 0 for aliases",
        "Exponent of the factor (size - 1)! by which the prior favours large entities, from 0 to "
        "10; 1 is the Dirichlet process, and a smaller one makes more entities.",
    ),
    "calibration": Setting(
        "FILE", "the model's", "Take alpha from this file, which kbforge calibrate wrote."
    ),
    "confidence-map": Setting(
        "FILE",
        "the model's",
        "Calibrate confidence with this file, which kbforge calibrate --confidence wrote.",
    ),
    "defaults": Setting(
        "FOLDER",
        "the shipped ones",
        "Use your own default models, which kbforge lab train-default wrote.",
    ),
    "labels-from": Setting(
        "FILE", "none", "Labels that teach the model of pairs, as for kbforge train-pairs --labels."
    ),
    "rules": Setting(
        "FILE",
        "none",
        'TOML file of rules: never = ["vat id"] keeps apart fragments whose values of it differ, '
        'always = ["passport"] merges those that share a value.',
    ),
    "estimate": Setting(
        "map|binder|vi",
        "map",
        "Which grouping to write: the most probable one (map), or the one with the smallest "
        "expected loss over pairs (binder) or variation of information (vi).",
    ),
    "alternatives": Setting(
        "few|all",
        "few",
        "Other groupings to keep for an entity: the three most probable above 1 %, or all.",
    ),
}
"""The settings of a run by `--set NAME=VALUE`; each is a field of `RunOptions`."""

_TYPED = ("N", "X", "true|false")  # the values of others are texts

NAME_VALUE = "NAME=VALUE"
"""The options that `--set` accepts for a verb that uses these names."""

OF_CLUSTERING = ("clusterer", "particles", "surrogate", "max-evals", "index", "exact")
"""The names in `OF_A_RUN` about how to cluster."""


def option(*words: str, **settings: Any) -> Any:
    """A `typer.Option`: its names, then its help."""
    *names, text = words
    return typer.Option(*names, help=text, **settings)


def names_explained() -> str:
    """The names in `OF_A_RUN`, for the end of a help page."""
    lines = (f"{n}={s.value}: {s.help} (default: {s.default})" for n, s in OF_A_RUN.items())
    return "\n\n".join(("Names for --set:", *lines))


def names_listed(names: Iterable[str], when: str = "") -> str:
    """Some names in `OF_A_RUN`, for the end of a help page."""
    return f"Names for --set{when}: {', '.join(names)}. kbforge cluster --help explains them."


def complete_setting(incomplete: str) -> Iterator[tuple[str, str]]:
    """Completions of a name, or of a name's value."""
    name, equals, begun = incomplete.partition("=")
    if not equals:
        yield from ((f"{n}=", s.help) for n, s in OF_A_RUN.items() if n.startswith(name))
        return
    groups = {"clusterer": "clusterers", "surrogate": "likelihoods"}
    if name in groups:
        values: Iterable[str] = registry.names(groups[name])
    elif name == "index":
        from kbforge.fit.choices import NO_INDEX
        from kbforge.indexes import INDEXES

        values = (*INDEXES, NO_INDEX)
    else:
        values = OF_A_RUN[name].value.split("|") if name in OF_A_RUN else ()
    yield from ((f"{name}={value}", "") for value in values if value.startswith(begun))


Likelihood: TypeAlias = Annotated[
    str | None,
    option(
        "--likelihood",
        "Name of a likelihood, or a model folder.",
        show_default="chosen to suit the file",
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
Answers: TypeAlias = Annotated[
    str | None,
    option(
        "--answers",
        "Answers that kbforge review collected; clustering honours them and learns from them.",
    ),
]
Link: TypeAlias = Annotated[
    str | None,
    option(
        "--link",
        "Never merge fragments that share a value of this attribute; source is the table "
        "that they come from.",
        metavar="ATTRIBUTE",
    ),
]
Refers: TypeAlias = Annotated[
    str,
    option(
        "--refers",
        "Attributes whose values name other entities, such as employer,country; auto finds them, "
        "none links no value.",
        metavar="ATTRIBUTES",
    ),
]
Time: TypeAlias = Annotated[
    str | None,
    option(
        "--time",
        "Attribute, or name in metadata, with the time at which a fragment was observed, such as "
        "2019-03; values then say from when to when they were stated. Models do not compare it.",
        metavar="ATTRIBUTE",
    ),
]
At: TypeAlias = Annotated[
    str | None,
    option(
        "--at",
        "Only values that held at the end of this time, such as 2019, 2019-03 or 2019-03-01.",
        metavar="TIME",
        show_default="all",
    ),
]
Fragments: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="Fragments, JSON lines; or a table: .csv, .tsv, .xlsx, .parquet, or another extension "
        "that kbforge load knows; - for standard input."
    ),
]
IdColumn: TypeAlias = Annotated[
    str | None,
    option(
        "--id",
        "Column of a table's ids; --set source.OPTION=VALUE sets other options of kbforge load.",
        show_default="a column called id, if safe",
    ),
]
Against: TypeAlias = Annotated[
    str | None,
    option(
        "--against",
        "Known entities, which are never merged: fragments (one entity per label), a knowledge "
        "base or a table. Fragments join the known entities that they match; the others form "
        "new entities.",
        metavar="AUTHORITY",
    ),
]
By: TypeAlias = Annotated[
    str | None,
    option(
        "--as",
        "Name of who says so, for the audit.",
        metavar="NAME",
        show_default="$KBFORGE_AS, or the user of this machine",
    ),
]
Note: TypeAlias = Annotated[str | None, option("--note", "Why, for the audit.", metavar="TEXT")]
Seed: TypeAlias = Annotated[int, option("--seed", "Random seed.", min=0)]
# for a verb whose default uses no random numbers
HiddenSeed: TypeAlias = Annotated[int, option("--seed", "Random seed.", min=0, hidden=True)]
Limit: TypeAlias = Annotated[
    int | None, option("--limit", "Read at most this many fragments.", min=1)
]
Shuffles: TypeAlias = Annotated[
    int,
    option(
        "--shuffles", "Average probabilities over this many orders of the data.", min=1, max=1000
    ),
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
RunSettings: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--set",
        "Set a name below, or an option of a plugin (kbforge plugins show lists them), such as "
        "likelihood.scale=2; may be repeated.",
        metavar=NAME_VALUE,
        autocompletion=complete_setting,
    ),
]
Store: TypeAlias = Annotated[
    str, typer.Argument(help="Store, which kbforge cluster --into creates.")
]
KnowledgeBase: TypeAlias = Annotated[
    str, typer.Argument(help="Knowledge base: JSON lines or a store; - for standard input.")
]
Json: TypeAlias = Annotated[bool, option("--json", "Print one JSON object.")]
JsonSummary: TypeAlias = Annotated[bool, option("--json", "Print the summary as one JSON object.")]


def choices_of(
    context: typer.Context,
    names: Collection[str] = tuple(OF_A_RUN),
    kinds: Collection[str] = KINDS,
) -> RunOptions:
    """The user's choices, by the options that the verb has; defaults for the others.

    `--set` accepts these names in `OF_A_RUN`, options of these kinds of plugin and, if the verb
    uses them, those of a table's source and of a store (`set_of`).
    """
    from kbforge.fit.choices import RunOptions

    given = context.params
    chosen = {one.name: given[one.name] for one in fields(RunOptions) if one.name in given}
    if "gpu" in given:
        chosen["device"] = device_of(given["gpu"])
    others = [*["source"] * ("id_column" in given), *["store"] * ("into" in given)]
    parsed = parse_settings(given["settings"] or (), [*kinds, *others], names)
    texts = parsed.get("", {})
    typed = {n: texts[n] for n in texts if OF_A_RUN[n.replace("_", "-")].value in _TYPED}
    chosen |= texts | bind_options(RunOptions, "--set", typed)
    return RunOptions(**chosen, options={kind: parsed[kind] for kind in kinds})


def read(context: typer.Context, path: str) -> Iterator[Fragment]:
    """The fragments of a file, read with the verb's options; notes report what a table was read
    as."""
    from kbforge.cli import console
    from kbforge.files.fragments import read_fragments

    limit = context.params.get("limit")
    return read_fragments(path, limit, source_options(context), console.remark)


def read_all(context: typer.Context, path: str, **more: object) -> Sequence[Fragment]:
    """As `read`, all at once; `more` are other options of the source."""
    from kbforge.cli import console
    from kbforge.files.lines import read_columns

    limit = context.params.get("limit")
    return read_columns(path, limit, {**source_options(context), **more}, console.remark)


def source_options(context: typer.Context) -> dict[str, object]:
    """The options of a table's source: `--set source.OPTION=VALUE`, and `--id`."""
    found: dict[str, object] = {**set_of(context, "source")}
    if isinstance(column := context.params["id_column"], str):
        found["id"] = column
    return found


def set_of(context: typer.Context, kind: str) -> dict[str, str]:
    """The `--set` values for one kind of plugin."""
    settings = context.params["settings"] or ()
    return parse_settings([s for s in settings if s.startswith(f"{kind}.")], [kind])[kind]


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
    """The first of these parameters set on the command line, as the user types it."""
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
