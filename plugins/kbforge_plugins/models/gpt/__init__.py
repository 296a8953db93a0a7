"""The language model: its network, tokenizer, bundle, and how sets are scored by it."""
