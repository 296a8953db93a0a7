"""Use cases of a stored knowledge base: it takes in, loses, decides, learns again and tells."""
