"""Review: which pairs of fragments are worth asking about, given what a posterior doubts."""
