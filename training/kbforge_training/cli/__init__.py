"""The verbs that train models, one module each."""
