"""`kbforge run`: runs the changed steps of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from kbforge import registry
from kbforge.cli import console, options
from kbforge.cli.main import UsageMistake, verb_called
from kbforge.cli.options import option
from kbforge.errors import UsageError, quoted
from kbforge.version import DISTRIBUTION, __version__
from kbforge.words import counted, did_you_mean

if TYPE_CHECKING:
    from kbforge.recipe.read import Option
    from kbforge.recipe.run import StepReport

app = typer.Typer(add_completion=False)


_OF_A_RUN = ("dry_run", "first", "only", "json")


@app.command()
def run(
    context: typer.Context,
    pipeline: Annotated[
        str | None,
        typer.Argument(help="Pipeline file (TOML). With --init: the folder to write it into."),
    ] = None,
    init: Annotated[
        bool, option("--init", "Write a commented pipeline.toml to edit; run nothing.")
    ] = False,
    dry_run: Annotated[
        bool, option("--dry-run", "Say what would run and why; run nothing.")
    ] = False,
    force: Annotated[
        bool, option("--force", "Run steps even if unchanged. With --init: overwrite the file.")
    ] = False,
    first: Annotated[str, option("--from", "Start at this step.", metavar="STEP")] = "",
    only: Annotated[str, option("--only", "Run only this step.", metavar="STEP")] = "",
    json: Annotated[
        bool, option("--json", "Print a summary of the steps as one JSON object.")
    ] = False,
) -> None:
    """Run a pipeline file; skip the steps that did not change.

    A step is a verb with its arguments and options. It runs if it has not succeeded yet, if its
    options, an input file or the program changed, or if its output is missing or was modified. A
    skipped step repeats what it printed. A step that fails ends the run; the next run continues
    there.

    Examples:

        kbforge run --init && kbforge run pipeline.toml

        kbforge run --init archive && kbforge run archive/pipeline.toml

        kbforge run pipeline.toml --dry-run

        kbforge run pipeline.toml --from cluster --force
    """
    from kbforge.recipe.run import run_pipeline, summary, write_template

    if init:
        if (named := options.first_given(context, _OF_A_RUN)) is not None:
            raise UsageError(f"--init runs nothing; leave out {named}")
        target = write_template(pipeline or ".", force)
        console.note(f"wrote {target}; edit the line marked EDIT, then: kbforge run {target}")
        return
    if pipeline is None:
        raise UsageError("expected a pipeline file; --init writes one")
    reports = run_pipeline(
        pipeline,
        InstalledVerb,
        lambda report: _show(report, json),
        dry_run=dry_run,
        force=force,
        first=first,
        only=only,
        print_to_stderr=json,
    )
    if json:
        console.print_json(summary(reports))
        return
    ends = ("ran", "skipped", "would run")
    counts = {status: sum(r.status == status for r in reports) for status in ends}
    parts = [f"{count} {status}" for status, count in counts.items() if count]
    console.note(f"{counted(len(reports), 'step')}: {', '.join(parts)}")


def _show(report: StepReport, json: bool) -> None:
    import sys

    from kbforge.files.io import bytes_of

    called = f"[{report.number}] {quoted(report.step)}"
    if report.status == "note":
        console.note(f"note: {report.why}")
    elif report.status == "skipped":
        console.note(f"{called}: skipped, nothing changed")
        if report.printed and not json:
            bytes_of(sys.stdout).write(report.printed.encode())
            sys.stdout.buffer.flush()
    elif report.status == "ran":
        console.note(f"{called}: done in {report.seconds:.1f} s")
    else:
        console.note(f"{called}: {report.status}, because {report.why}")


# --- the verbs of a pipeline ----------------------------------------------------------------------


class InstalledVerb:
    """A verb of an installed distribution, or its sub-command, by its words."""

    def __init__(self, words: Sequence[str]) -> None:
        self._called = " ".join(("kbforge", *words))
        self._command = _command_of(words)
        self._distribution = registry.find("commands", words[0])

    @property
    def program(self) -> str:
        """kbforge with its version, and the distribution if it is another."""
        ours, plugin = f"kbforge {__version__}", self._distribution
        if plugin.distribution == DISTRIBUTION:
            return ours
        return f"{plugin.distribution} {plugin.version} on {ours}"

    @property
    def options(self) -> Mapping[str, Option]:
        """The long options, without their dashes, and the names that `--set` takes."""
        from kbforge.recipe.read import Option

        params = [p for p in self._command.params if p.param_type_name == "option"]
        found = [_option(parameter) for parameter in params]
        if any(parameter.metavar == options.NAME_VALUE for parameter in params):
            found += [Option(f"--set={name}") for name in options.OF_A_RUN]
        return {option.name: option for option in found}

    def run(self, arguments: Sequence[str]) -> int:
        """Call the verb with the arguments of a command line."""
        try:
            with registry.blamed():
                code = self._command.main(
                    list(arguments), prog_name=self._called, standalone_mode=False
                )
        except SystemExit as error:
            # a text means exit code 1
            code = error.code if isinstance(error.code, int | None) else 1
        except UsageMistake as error:
            said = " ".join(str(error.format_message()).split())
            raise UsageError(f"{said} (see {self._called} --help)") from error
        return code if isinstance(code, int) else 0


def _command_of(words: Sequence[str]) -> Any:
    """The command of a verb and its sub-commands."""
    command = verb_called(words[0])
    for used, word in enumerate(words[1:], 1):
        members = getattr(command, "commands", {})
        if word not in members:
            raise UsageError(
                f'"{quoted(" ".join(words[:used]))}" has no sub-command "{quoted(word)}"'
                f"{did_you_mean(word, members)}; "
                f"expected {', '.join(sorted(members)) or 'none'}"
            )
        command = members[word]
    members = getattr(command, "commands", None)
    if members and isinstance(command, TyperGroup):
        raise UsageError(
            f'"{quoted(" ".join(words))}" needs a sub-command: one of {", ".join(sorted(members))}'
        )
    return command


def _option(parameter: Any) -> Option:
    from kbforge.recipe.read import Option

    text = parameter.default
    return Option(
        flag=str(max(parameter.opts, key=len)),
        is_switch=parameter.is_flag,
        off=next(iter(parameter.secondary_opts), ""),
        repeats=parameter.multiple,
        is_output=not {"--output", "-o", "--into"}.isdisjoint(parameter.opts),
        default=partial(registry.named_after, text) if isinstance(text, str) else None,
    )
