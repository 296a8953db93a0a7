from __future__ import annotations

from kbforge.testing import CommandContract


class TestCalibrate(CommandContract):
    name = "calibrate"


class TestCluster(CommandContract):
    name = "cluster"


class TestEvaluate(CommandContract):
    name = "evaluate"


class TestExplain(CommandContract):
    name = "explain"


class TestExport(CommandContract):
    name = "export"


class TestLoad(CommandContract):
    name = "load"


class TestPlugins(CommandContract):
    name = "plugins"


class TestRun(CommandContract):
    name = "run"


class TestShow(CommandContract):
    name = "show"


class TestTrainAttributes(CommandContract):
    name = "train-attributes"


class TestTrainLm(CommandContract):
    name = "train-lm"


class TestTrainNgram(CommandContract):
    name = "train-ngram"


class TestChanges(CommandContract):
    name = "changes"


class TestCheck(CommandContract):
    name = "check"


class TestDecide(CommandContract):
    name = "decide"


class TestRefit(CommandContract):
    name = "refit"


class TestRemove(CommandContract):
    name = "remove"


class TestReport(CommandContract):
    name = "report"


class TestReview(CommandContract):
    name = "review"


class TestStatus(CommandContract):
    name = "status"
