"""What the likelihoods of the laboratory are made of."""
