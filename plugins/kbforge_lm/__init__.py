"""Models of texts: character n-grams, and language models of sets of fragments.

It is plugged in through entry points, as a stranger's package is. It imports the library and
KBForge's own plugins; neither imports it.
"""
