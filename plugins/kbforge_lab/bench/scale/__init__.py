"""Predicts the cost of larger files from growing parts of one."""
