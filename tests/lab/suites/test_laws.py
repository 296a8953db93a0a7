from __future__ import annotations

from typing import ClassVar

import pytest

from tests.lab.suites.laws import SuiteLaws


class TestGauss(SuiteLaws):
    name = "gauss"


class TestCircles(SuiteLaws):
    name = "circles"


class TestDocuments(SuiteLaws):
    name = "documents"
    options: ClassVar = {"documents": 300, "clusters": 5}


@pytest.mark.data
@pytest.mark.usefixtures("data_dir")
class TestGaussPublished(SuiteLaws):
    name = "gauss"
    options: ClassVar = {"data": "published"}


@pytest.mark.data
@pytest.mark.usefixtures("data_dir")
class TestText(SuiteLaws):
    name = "text"


@pytest.mark.data
@pytest.mark.usefixtures("data_dir")
class TestAccuracy(SuiteLaws):
    name = "accuracy"
    options: ClassVar = {"most": 1000}


class TestHashing(SuiteLaws):
    name = "hashing"


class TestSupervised(SuiteLaws):
    name = "supervised"

    @pytest.fixture(autouse=True)
    def _scikit_learn(self):
        pytest.importorskip("sklearn")
