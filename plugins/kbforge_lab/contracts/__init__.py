"""The kinds of plugins that the laboratory adds, each with its laws."""
