"""The knowledge base: assembles, reads, selects and shows entities."""
