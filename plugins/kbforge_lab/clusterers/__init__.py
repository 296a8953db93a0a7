"""Clusterers of other papers, for comparison."""
