"""The verbs that serve a store, one module each."""
