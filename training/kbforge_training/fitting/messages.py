"""Messages of a training run that was interrupted or goes on."""

from __future__ import annotations

from pathlib import Path

from kbforge_training.fitting.checkpoint import Progress, read_progress
from kbforge_training.fitting.run_folder import folder_of_run


def going_on(progress: Progress, total: int, unit: str) -> str:
    """That a run goes on from its checkpoint.

    Args:
        progress: the checkpoint's.
        total: how much the run reads.
        unit: of what, such as "tokens".

    """
    return f"going on after step {progress.step:,} ({progress.tokens:,} of {total:,} {unit})"


def interrupted(bundle: Path, total: int, unit: str) -> str:
    """That the run for a bundle was interrupted, and where the same command goes on.

    Raises:
        ModelError: its checkpoint is damaged.

    """
    folder = folder_of_run(bundle)
    done = read_progress(folder)
    if done is None:
        return "interrupted before the first checkpoint: the same command begins again"
    return (
        f"interrupted: the same command goes on after step {done.step:,} "
        f"({done.tokens:,} of {total:,} {unit}), which {folder} holds"
    )
