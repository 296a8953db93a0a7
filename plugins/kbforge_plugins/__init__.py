"""KBForge's own plugins, one folder a kind, found the same way as anybody's."""
