"""The options that several verbs have: declared once, meaning one thing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias

import typer

from kbforge.errors import UsageError

Likelihood: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--likelihood", help="Likelihood by name, or a model folder.", show_default="attributes"
    ),
]
Surrogate: TypeAlias = Annotated[
    str | None,
    typer.Option("--surrogate", help="Model that proposes for an expensive likelihood."),
]
Index: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--index",
        help="Index that says which clusters a fragment is compared with; none: with all.",
        show_default="the likelihood's own, if any",
    ),
]
Exact: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Compare with all clusters that share a key, however many, and with all clusters if "
        "the likelihood brings no index; slower.",
    ),
]
Clusterer: TypeAlias = Annotated[
    str,
    typer.Option(
        "--clusterer",
        help="split-smc, smc, greedy, gibbs, metropolis, sir, agglomerative, minsm, fastex or a "
        "plugin's.",
    ),
]
Particles: TypeAlias = Annotated[
    int | None,
    typer.Option("--particles", "-P", min=1, help="Most particles kept a subproblem."),
]
MaxEvals: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-evals", "-M", min=0, help="Most joins a step that the surrogate proposes."),
]
ConfidenceMap: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--confidence-map",
        help="File written by kbforge reliability --fit; gives calibrated confidence.",
    ),
]
Defaults: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--defaults",
        metavar="FOLDER",
        help="Other models of the default than those that ship, as kbforge train-default writes.",
    ),
]
Answers: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--answers", help="File written by kbforge label; chooses likelihood and alpha by it."
    ),
]
Link: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--link",
        metavar="ATTRIBUTE",
        help="Never merge fragments that share a value of this attribute (source: that were read "
        "from the same table).",
    ),
]
Temperature: TypeAlias = Annotated[
    float,
    typer.Option(
        "--temperature", help="Divide log likelihoods and log alpha: above 1, evidence counts less."
    ),
]
Seed: TypeAlias = Annotated[
    int, typer.Option("--seed", min=0, help="Of the random numbers, where any are used.")
]
Limit: TypeAlias = Annotated[
    int | None,
    typer.Option("--limit", min=1, help="Read no further than this many fragments."),
]
Gpu: TypeAlias = Annotated[bool, typer.Option("--gpu", help="Same as --device cuda.")]
Device: TypeAlias = Annotated[
    Literal["cpu", "cuda"] | None,
    typer.Option("--device", help="Where a neural likelihood runs.", show_default="cpu"),
]
Workers: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        max=256,
        help="Threads of the compiled kernel, or workers of the executor; same result.",
        show_default="KBFORGE_WORKERS, else the cores there are, 8 threads at most",
    ),
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KIND.OPTION=VALUE",
        help="Any option of a plugin that the command uses, such as likelihood.scale=2.",
    ),
]


def device_of(gpu: bool, device: str | None) -> str:
    """The device that `--gpu` and `--device` name together.

    Raises:
        UsageError: they contradict each other, or there is no usable GPU.

    """
    if gpu and device == "cpu":
        raise UsageError("--gpu and --device cpu contradict each other")
    from kbforge.models.devices import require_device

    chosen = "cuda" if gpu else device or "cpu"
    require_device(chosen)
    return chosen


def files_of(settings: Iterable[str] | None, *models: str | None) -> list[str]:
    """The files that `--set` and the models may name: a setting's value, a model that is a folder.

    Args:
        settings: what `--set` was given.
        models: likelihoods and surrogates, by name or path.

    """
    from kbforge.models.resolve import is_name

    values = [setting.partition("=")[2] for setting in settings or ()]
    return [*values, *(model for model in models if model is not None and not is_name(model))]
