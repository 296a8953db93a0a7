"""The Spark session, and why there may be none."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kbforge.errors import KBForgeError, option, quoted

_MEMORY = "4g"
"""Of the JVM, if Spark runs in this process's machine alone."""
_TELLING = re.compile(r"[: ]*[\w.]+(Error|Exception): ")
"""A line of an exception that names it."""
_NO_JAVA = (
    "--engine spark requires Java 17 or later: install it (apt-get install openjdk-17-jre-headless)"
    ", or set JAVA_HOME"
)

_NOT_STARTED = "Spark did not start; it requires Java 17 or later and a master such as local[2]"


@contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """A session at this master; the present one, if there is one, which stays.

    Raises:
        KBForgeError: there is no Java, or no Spark at the master.

    """
    active = SparkSession.getActiveSession()
    if active is not None:
        with _failures("Spark failed"):
            yield _of_ours(active)
        return
    home = os.environ.get("JAVA_HOME")
    if shutil.which(os.path.join(home, "bin", "java") if home else "java") is None:
        raise KBForgeError(_NO_JAVA)
    # workers run the same Python, unless one is named
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    where = f"{option('clusterer.master', quoted(master))}"
    builder = SparkSession.builder.master(master).appName("kbforge")
    for name, value in _settings(master).items():
        builder = builder.config(name, value)
    with _failures(where):
        made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    try:
        with _failures(f"{where}: Spark failed"):
            yield _of_ours(made)
    finally:
        made.stop()


@contextmanager
def _failures(where: str) -> Iterator[None]:
    """Have a failure of Spark be one sentence."""
    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise KBForgeError(f"{where}: {_NOT_STARTED}") from None
        lines = [line for line in str(error).splitlines() if _TELLING.match(line)]
        said = lines[0] if lines else (str(error).splitlines() or [type(error).__name__])[0]
        raise KBForgeError(f"{where}: {quoted(said.strip(' :'), 400)}") from None


def _of_ours(spark: SparkSession) -> SparkSession:
    """A session beside this one, in which whole numbers wrap as the kernel's do."""
    ours = spark.newSession()
    ours.conf.set("spark.sql.ansi.enabled", "false")
    return ours


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.maxResultSize": "0",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    }
    if master.startswith("local["):
        settings["spark.driver.memory"] = os.environ.get("SPARK_DRIVER_MEMORY", _MEMORY)
        settings["spark.ui.enabled"] = "false"
        settings["spark.sql.shuffle.partitions"] = "8"
    return settings
