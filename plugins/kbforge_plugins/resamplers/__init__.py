"""Resamplers: from many weighted putative particles to at most P."""
