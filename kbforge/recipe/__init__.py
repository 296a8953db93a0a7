"""Pipeline files: reads them, runs their steps, and skips unchanged ones."""
