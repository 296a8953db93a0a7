"""The contract tests of the plugins whose kits need nothing more than their names and options."""

from __future__ import annotations

from typing import ClassVar

from kbforge.testing import (
    CalibratorContract,
    CommandContract,
    LikelihoodContract,
    SerializerContract,
)
from tests.contracts.conftest import Plugins


class TestCommands(CommandContract):
    plugins: ClassVar[Plugins] = [
        *(
            "backup",
            "calibrate",
            "changes",
            "check",
            "cluster",
            "decide",
            "evaluate",
            "explain",
            "export",
        ),
        *("link", "load", "plugins", "refit", "remove", "report", "review", "run"),
        *("show", "status"),
    ]


class TestSerializers(SerializerContract):
    plugins: ClassVar[Plugins] = ["canonical-json", "flat-json"]


class TestCalibrators(CalibratorContract):
    plugins: ClassVar[Plugins] = ["pseudo-likelihood", "bcubed"]


class TestLikelihoods(LikelihoodContract):
    plugins: ClassVar[Plugins] = ["attributes", "gaussian", "names"]


class TestPairs(LikelihoodContract):
    plugins: ClassVar[Plugins] = ["pairs", ("pairs", {"layer": "-2.5,.1,.3"})]
    signed = frozenset(
        {
            # log odds, and digests of 64 bits
            *("links/above", "links/own", "statements", "called/numbers"),
            *("table/names/numbers", "table/names/letters"),
            *(f"table/columns/{k}/numbers" for k in range(3)),
            *(f"worths/{k}/values" for k in range(3)),
        }
    )
