"""The laboratory: every algorithm side by side, in processes, resumable, with a report.

suites (plugins) -> runs -> workers -> results -> summary, figures, report
"""
