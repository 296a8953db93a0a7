"""Stores: knowledge bases in one SQLite file that can be updated."""
