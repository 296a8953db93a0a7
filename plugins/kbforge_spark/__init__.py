"""Clusters a file on Spark: `kbforge cluster FILE --engine spark`.

Pairs and rounds (`kbforge.clustering.rounds`) are DataFrames here (`stages`), whose tasks ask the
kernel for the scores (`tasks`). The grouping is that of one machine, because all that is compared
is whole numbers. `docs/spark.md` says what stays on the driver, and what breaks first.
"""
