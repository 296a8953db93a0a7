from __future__ import annotations

from typing import ClassVar

import pytest

from kbforge_lab.testing import SuiteContract


class TestGauss(SuiteContract):
    name = "gauss"


class TestCircles(SuiteContract):
    name = "circles"


class TestDocuments(SuiteContract):
    name = "documents"
    options: ClassVar = {"documents": 300, "clusters": 5}


@pytest.mark.data
@pytest.mark.usefixtures("data_dir")
class TestGaussPublished(SuiteContract):
    name = "gauss"
    options: ClassVar = {"data": "published"}


@pytest.mark.data
@pytest.mark.usefixtures("data_dir")
class TestText(SuiteContract):
    name = "text"


@pytest.mark.data
@pytest.mark.usefixtures("data_dir")
class TestAccuracy(SuiteContract):
    name = "accuracy"
    options: ClassVar = {"most": 1000}


class TestHashing(SuiteContract):
    name = "hashing"


class TestSupervised(SuiteContract):
    name = "supervised"

    @pytest.fixture(autouse=True)
    def _scikit_learn(self) -> None:
        pytest.importorskip("sklearn")
