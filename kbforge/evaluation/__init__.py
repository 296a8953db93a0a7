"""Scores of a predicted clustering against gold labels."""
