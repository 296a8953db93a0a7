"""The command line: one small module a verb, which parses, calls the library and prints."""
