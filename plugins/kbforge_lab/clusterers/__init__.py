"""Clusterers of other papers, and those that are here to be compared with."""
