"""The knowledge base: entities assembled from a posterior, read back, chosen and shown."""
