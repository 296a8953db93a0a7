"""Contract tests for authors of plugins, one module for each kind.

Subclass the kind's contract under pytest; every law in `kbforge/contracts/<kind>.py` then becomes a
test of your plugin:

    class TestVCard(SourceContract):
        name = "vcard"

        def document(self, n): ...
"""

import pytest

_MODULES = ("clusterer", "contract", "formats", "likelihood")
# so that a failing assert shows its values, as in the author's own tests
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

from kbforge.testing.clusterer import (  # noqa: E402
    CalibratorContract,
    ClustererContract,
)
from kbforge.testing.contract import CommandContract, Contract  # noqa: E402
from kbforge.testing.examples import (  # noqa: E402
    BlackBox,
    Categorical,
    UniformLikelihood,
)
from kbforge.testing.formats import (  # noqa: E402
    ExporterContract,
    SerializerContract,
    SourceContract,
)
from kbforge.testing.likelihood import LikelihoodContract  # noqa: E402

__all__ = [
    "BlackBox",
    "CalibratorContract",
    "Categorical",
    "ClustererContract",
    "CommandContract",
    "Contract",
    "ExporterContract",
    "LikelihoodContract",
    "SerializerContract",
    "SourceContract",
    "UniformLikelihood",
]
