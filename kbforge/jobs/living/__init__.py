"""Use cases of a stored knowledge base: add, remove, decide, learn again, report."""
