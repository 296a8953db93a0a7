"""Training of the models behind the plain default: labelled families, trees, judges and maps."""
