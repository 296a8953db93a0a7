"""Pipeline files: read, run step by step, and remembered so that nothing runs twice."""
