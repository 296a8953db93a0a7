"""Points in the colours of their entities, and films of how groupings came about."""
