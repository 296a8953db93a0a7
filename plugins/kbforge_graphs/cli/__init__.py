"""The verb of graphs."""
