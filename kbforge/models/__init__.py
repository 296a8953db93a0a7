"""Models ready to use: found by name or bundle, calibrated, tempered, their scores remembered."""
