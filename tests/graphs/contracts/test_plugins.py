"""The verb of graphs keeps the laws of verbs."""

from kbforge.testing import CommandContract


class TestResolve(CommandContract):
    name = "resolve"
