"""The language model of sets of fragments: `model`, `scoring` and `likelihood`."""
