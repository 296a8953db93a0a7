"""The likelihood `aliases`: names of one entity in a graph of mentions."""
