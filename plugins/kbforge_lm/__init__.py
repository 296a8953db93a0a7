"""Models of texts: character n-grams.

Entry points announce its plugins, as for a third-party package. It imports the library and
KBForge's own plugins; neither imports it.
"""
