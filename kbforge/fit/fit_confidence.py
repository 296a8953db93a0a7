"""Confidence maps: fitted on labelled fragments, and put where a clustering finds them.

A map is tested on entities that it was not fitted on. They are clustered by themselves: to cluster
all, and then to choose pairs within one part, would lose wrong pairs and no right ones. Half of the
wrong pairs reach from one part into the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.evaluation.monotone import fit
from kbforge.evaluation.reliability import entity_claims, pair_claims
from kbforge.files.io import open_output, require_writable
from kbforge.fit.calibration import fingerprint, read_calibration, write_calibration
from kbforge.fit.choices import Choices
from kbforge.fit.confidence import IN_BUNDLE, ConfidenceMap, confidence_toml
from kbforge.fit.orders import OnOrder, cluster_orders
from kbforge.fit.reliability import ReliabilitySettings
from kbforge.models.bundle import add_file, read_bundle


def fit_confidence(
    fragments: Sequence[Fragment],
    choices: Choices,
    settings: ReliabilitySettings,
    on_order: OnOrder | None = None,
) -> ConfidenceMap:
    """Cluster labelled fragments and fit the map of their claims to the labels.

    Args:
        fragments: with labels, which the clustering does not read.
        choices: how to cluster; the map holds for them.
        settings: how many orders to average over, and which pairs to leave out.
        on_order: is told of progress.

    Raises:
        KBForgeError: no labels, no claims to fit a map on, or as `kbforge.jobs.cluster.cluster`.

    """
    clustered = cluster_orders(fragments, choices, settings.shuffles, on_order)
    pairs = pair_claims(clustered.pairs(settings.least), clustered.labels)
    entities = entity_claims(clustered.entities(), clustered.labels)
    if not len(pairs):
        raise KBForgeError(
            "there is nothing to fit a confidence map on: no two labelled fragments may share an "
            "entity; try a smaller alpha"
        )
    if not len(entities):
        raise KBForgeError(
            "there is nothing to fit a confidence map on: every entity found has a fragment "
            "without a label; give fragments that all have one"
        )
    return ConfidenceMap(
        pairs=fit(pairs),
        entities=fit(entities),
        likelihood=choices.likelihood_name,
        options={key: str(value) for key, value in choices.of("likelihood").items()},
        clusterer=choices.clusterer_name,
        alpha=clustered.alpha,
        temperature=float(choices.temperature),
        shuffles=settings.shuffles,
        fragments=len(fragments),
        sha256=fingerprint(fragments),
    )


def save_confidence(found: ConfidenceMap, path: str, calibration: str | None) -> str:
    """Put a map where it will be found: into a model folder, a calibration file, or a file.

    Args:
        found: the map.
        path: a model folder, the calibration file, or any other file, which is replaced.
        calibration: the calibration file in use, if any.

    Returns:
        The file that now holds it.

    Raises:
        KBForgeError: it cannot be written.

    """
    if Path(path).is_dir():
        add_file(Path(path), IN_BUNDLE, confidence_toml(found))
        return str(Path(path) / IN_BUNDLE)
    if calibration is not None and _same_file(path, calibration):
        write_calibration(replace(read_calibration(path), confidence=found), calibration)
        return calibration
    with open_output(path) as out:
        out.write(confidence_toml(found))
    return path


def require_place(path: str) -> None:
    """Find out before long work that a map cannot be put somewhere.

    Args:
        path: as of `save_confidence`.

    Raises:
        KBForgeError: a folder that is not a model, or a file that cannot be written.

    """
    if Path(path).is_dir():
        read_bundle(Path(path))
    else:
        require_writable(path)


def halves(fragments: Sequence[Fragment]) -> tuple[list[Fragment], list[Fragment]]:
    """One gold entity in two, and the others; the same ones every time.

    Returns:
        To fit on, and to test on, in the order given; fragments without a label are in neither.

    Raises:
        KBForgeError: there are too few entities for both.

    """
    known = [fragment for fragment in fragments if fragment.label is not None]
    fitted, tested = [f for f in known if _is_first(f)], [f for f in known if not _is_first(f)]
    if not fitted or not tested:
        entities = len({fragment.label for fragment in known})
        raise KBForgeError(
            f"a confidence map needs labelled entities to fit on and others to be tested on, "
            f"got {entities} in all"
        )
    return fitted, tested


def require_disjoint(fitted: Sequence[Fragment], tested: Sequence[Fragment]) -> None:
    """Refuse to test a map on entities that it was fitted on.

    Raises:
        UsageError: a label is in both.

    """
    shared = {f.label for f in fitted} & {f.label for f in tested} - {None}
    if shared:
        raise UsageError(
            f"--test-on: expected entities that the map is not fitted on, got {len(shared):,} of "
            f'them, such as "{quoted(min(map(str, shared)))}"'
        )


def _same_file(one: str, other: str) -> bool:
    # one file may be named in several ways
    try:
        return Path(one).samefile(other)
    except OSError:
        return False


def _is_first(fragment: Fragment) -> bool:
    digest = hashlib.blake2b(str(fragment.label).encode(), digest_size=1).digest()
    return digest[0] % 2 == 0
