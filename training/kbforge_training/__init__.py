"""What trains the models that the library loads."""
