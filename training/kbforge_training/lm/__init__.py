"""Training language models of sets of fragments."""
