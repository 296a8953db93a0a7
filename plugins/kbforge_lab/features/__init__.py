"""Features: how far apart fragments are in one respect."""
