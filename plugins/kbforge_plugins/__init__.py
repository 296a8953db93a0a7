"""KBForge's own plugins, one folder for each kind, found like any other plugin."""
