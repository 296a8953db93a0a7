"""Training of the models that the library loads."""
