"""The command line: one module per verb, which parses, calls the library and prints."""
