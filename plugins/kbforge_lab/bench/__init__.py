"""The bench: compares algorithms on the same data, with a report.

suites (plugins) -> runs -> workers -> results -> summary, figures, report
"""
