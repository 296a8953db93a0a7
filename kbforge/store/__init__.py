"""The store: a knowledge base that lives on, in one SQLite file."""
