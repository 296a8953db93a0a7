"""Models that are ready to use: found by name or bundle, calibrated, with cached scores."""
