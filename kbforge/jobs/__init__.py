"""The use cases of KBForge without the command line, one module each."""
