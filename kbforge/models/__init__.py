"""Models ready to use: found by name or bundle, calibrated, their scores remembered."""
