"""The command line: each verb has a module that parses, calls the library and prints."""
