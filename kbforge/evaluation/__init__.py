"""How good is a grouping? Scores of a predicted clustering against gold labels."""
