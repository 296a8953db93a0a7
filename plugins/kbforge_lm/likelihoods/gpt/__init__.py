"""The language model of sets of fragments: its `model`, its `scoring` and the `likelihood`."""
