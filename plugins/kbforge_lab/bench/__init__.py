"""The bench: all algorithms side by side on the same data, with a report.

suites (plugins) -> runs -> workers -> results -> summary, figures, report
"""
