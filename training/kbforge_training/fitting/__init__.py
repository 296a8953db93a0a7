"""Fits networks: the training loop, schedules, optimizers and resumption."""
