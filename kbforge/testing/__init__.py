"""Contract tests that a plugin's author runs on it, one module a kind.

Subclass the kind's contract under pytest; every law at the top of `kbforge/contracts/<kind>.py`
then becomes a test of your plugin:

    class TestVCard(SourceContract):
        name = "vcard"

        def document(self, n): ...
"""

import pytest

_MODULES = (
    *("calibrator", "clusterer", "command", "executor", "exporter"),
    *("grammar", "index"),
    *("likelihood", "resampler", "serializer", "source"),
)
# so that a failing assert shows its values, as in the author's own tests
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

from kbforge.testing.calibrator import CalibratorContract  # noqa: E402
from kbforge.testing.clusterer import ClustererContract, OnlineClustererContract  # noqa: E402
from kbforge.testing.command import CommandContract  # noqa: E402
from kbforge.testing.contract import Contract  # noqa: E402
from kbforge.testing.executor import ExecutorContract  # noqa: E402
from kbforge.testing.exporter import ExporterContract  # noqa: E402
from kbforge.testing.fakes import (  # noqa: E402
    BlackBox,
    Categorical,
    MemoryPages,
    UniformLikelihood,
)
from kbforge.testing.grammar import GrammarContract  # noqa: E402
from kbforge.testing.index import IndexContract  # noqa: E402
from kbforge.testing.likelihood import LikelihoodContract  # noqa: E402
from kbforge.testing.resampler import ResamplerContract  # noqa: E402
from kbforge.testing.serializer import SerializerContract  # noqa: E402
from kbforge.testing.source import SourceContract  # noqa: E402

__all__ = [
    "BlackBox",
    "CalibratorContract",
    "Categorical",
    "ClustererContract",
    "CommandContract",
    "Contract",
    "ExecutorContract",
    "ExporterContract",
    "GrammarContract",
    "IndexContract",
    "LikelihoodContract",
    "MemoryPages",
    "OnlineClustererContract",
    "ResamplerContract",
    "SerializerContract",
    "SourceContract",
    "UniformLikelihood",
]
