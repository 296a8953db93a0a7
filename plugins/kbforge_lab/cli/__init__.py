"""The verbs of `kbforge lab`, one module each."""
