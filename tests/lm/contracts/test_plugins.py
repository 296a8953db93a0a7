from typing import ClassVar

from kbforge.testing import CommandContract, LikelihoodContract
from tests.contracts.conftest import Plugins


class TestCommands(CommandContract):
    plugins: ClassVar[Plugins] = ["train-attributes", "train-ngram"]


class TestLikelihoods(LikelihoodContract):
    name = "bigram"
