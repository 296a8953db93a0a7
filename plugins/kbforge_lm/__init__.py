"""Models of texts: character n-grams, and language models of sets of fragments.

Entry points announce its plugins, as for a third-party package. It imports the library and
KBForge's own plugins; neither imports it.
"""
