"""What is said if there is no Spark."""

from __future__ import annotations

import shutil

import pytest

from kbforge.errors import KBForgeError

pytest.importorskip("pyspark")


def test_without_java_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from kbforge_spark.session import session

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(KBForgeError, match=r"requires Java 17 or later: install it"):
        session("local[2]").__enter__()


@pytest.mark.skipif(shutil.which("java") is None, reason="no Java")
def test_a_master_that_is_none_is_named() -> None:
    from kbforge_spark.session import session

    with pytest.raises(
        KBForgeError, match=r"--set clusterer.master=nonsense: Spark did not start; it requires"
    ):
        session("nonsense").__enter__()
