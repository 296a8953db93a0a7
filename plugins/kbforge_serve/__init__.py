"""Serves a store: pages for people; an API, reconciliation and MCP for programs.

All doors (`pages`, `api`, `reconcile`, `mcp`) ask one `Service`, and none of them reads a store
itself. Answers are what JSON can say: a page is a template of the object that its `.json` gives.
"""
