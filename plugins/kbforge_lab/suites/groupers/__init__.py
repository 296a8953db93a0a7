"""What the suite `supervised` compares: ways to group vectors, with the help of labelled ones."""
