"""Serves a store: pages for users; an API, reconciliation and MCP for programs.

All interfaces (`pages`, `api`, `reconcile`, `mcp`) use one `Service`, whose readers and
writer alone open the store. Answers are plain JSON: a page is a template of the object that its
`.json` returns.
"""
