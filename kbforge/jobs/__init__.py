"""The use cases of KBForge, each in a module, independent of the command line."""
