"""n-gram counts of text: the prior, the rows and the text that they are counted from."""
