"""`kbforge lab plot`: draws groupings of points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console, options
from kbforge.cli.console import following
from kbforge.cli.options import choices_of
from kbforge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbforge.contracts import Fragment, OnStep, Progress
    from kbforge.fit.choices import RunOptions
    from kbforge.jobs.cluster import KnowledgeBase

app = typer.Typer(add_completion=False)

_OF_A_RUN = ("clusterer", "particles", "surrogate", "max-evals")
_OF_A_KB = ("fragments", "output", "kb", "limit")


@app.command(epilog=options.names_listed(_OF_A_RUN))
def plot(
    context: typer.Context,
    fragments: Annotated[
        str, typer.Argument(help="Fragments with vectors of two numbers; - for standard input.")
    ],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Picture, .png or .svg.", show_default="clusters.png"),
    ] = None,
    kb: Annotated[
        str | None,
        typer.Option(help="Draw this knowledge base of the fragments instead of clustering them."),
    ] = None,
    top: Annotated[
        int,
        typer.Option(min=1, max=24, help="Number of groupings side by side, most probable first."),
    ] = 1,
    animate: Annotated[
        str | None, typer.Option(help="Also show the clustering as it happens, in this .gif.")
    ] = None,
    frames: Annotated[int, typer.Option(min=2, help="Maximum frames of the animation.")] = 80,
    likelihood: Annotated[
        str, typer.Option(help="Name of a likelihood, or a model folder.")
    ] = "gaussian",
    alpha: Annotated[
        float | None, typer.Option(help="Concentration; a larger one makes more entities.")
    ] = None,
    seed: options.Seed = 0,
    limit: options.Limit = None,
    settings: options.RunSettings = None,
) -> None:
    """Draw points in the colours of their entities.

    --kb draws the grouping that a knowledge base keeps. Without it the fragments are clustered;
    only then can --top draw the competing groupings, and --animate the steps.

    Examples:

        kbforge lab plot points.jsonl --kb kb.jsonl -o kb.png

        kbforge lab plot points.jsonl --alpha 20 --top 3 -o groupings.svg

        kbforge lab plot points.jsonl --alpha 20 --animate online.gif
    """
    from kbforge.files.fragments import read_fragments
    from kbforge.files.io import require_apart, require_distinct
    from kbforge.pictures import require_format, require_matplotlib
    from kbforge_lab.pictures import points_of, require_gif

    if kb is not None:
        _require_no_clustering(context)
    if animate is None and _is_given(context, "frames"):
        raise UsageError("--frames limits an animation; name one with --animate")
    require_matplotlib()
    target = "clusters.png" if output is None and animate is None else output
    if target is not None:
        require_format(target)
    if animate is not None:
        require_gif(animate)
    require_distinct([("picture", target), ("animation", animate)])
    for path in (target, animate):
        if path is not None:
            require_apart(path, [fragments, kb, *options.files_of(settings, likelihood)])
    held = list(read_fragments(fragments, limit=limit))
    points_of(held)  # refuses what cannot be drawn before the work
    if kb is not None:
        _draw_kb(kb, held, str(target))
        return
    _cluster_and_draw(
        held,
        choices_of(context, _OF_A_RUN, ["likelihood", "surrogate", "clusterer"]),
        target,
        top,
        animate,
        frames,
    )


def _require_no_clustering(context: typer.Context) -> None:
    """Refuse the options of a clustering: they would do nothing."""
    for option in context.command.params:
        if option.name not in _OF_A_KB and _is_given(context, option.name or ""):
            raise UsageError(
                "--kb draws the one grouping that a knowledge base keeps; "
                f"leave out {option.opts[0]}, or --kb to cluster"
            )


def _is_given(context: typer.Context, option: str) -> bool:
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def _draw_kb(kb: str, fragments: Sequence[Fragment], target: str) -> None:
    from kbforge.jobs.views import entities_of
    from kbforge.pictures import save
    from kbforge_lab.pictures import draw, scene_of_kb

    save(draw(scene_of_kb(entities_of(kb), fragments)), target)
    console.note(f"wrote {target}")


def _cluster_and_draw(
    fragments: Sequence[Fragment],
    choices: RunOptions,
    target: str | None,
    top: int,
    animate: str | None,
    frames: int,
) -> None:
    from kbforge.errors import counted
    from kbforge.pictures import save
    from kbforge_lab.pictures import Recorder, draw, scene_of_posterior, write_animation

    recorder = Recorder(fragments, frames) if animate is not None else None
    done = _clustered(fragments, choices, recorder)
    for sentence in done.notes:
        console.note(f"note: {sentence}")
    if target is not None:
        scene = scene_of_posterior(fragments, done.posterior, top)
        if len(scene.views) < top:
            kept = counted(len(scene.views), "grouping was", "groupings were")
            console.note(f"note: only {kept} kept, fewer than --top {top} asks for")
        save(draw(scene), target)
        console.note(f"wrote {target}")
    if animate is not None and recorder is not None:
        recorder.finish(done.posterior)
        write_animation(fragments, recorder.frames, animate)
        console.note(f"wrote {animate}")


def _clustered(
    fragments: Sequence[Fragment], choices: RunOptions, record: OnStep | None
) -> KnowledgeBase:
    from kbforge.jobs.cluster import cluster

    with following() as (show, on_stage):

        def on_step(progress: Progress) -> None:
            show(progress)
            if record is not None:
                record(progress)

        return cluster(fragments, choices, on_step, on_stage=on_stage)
