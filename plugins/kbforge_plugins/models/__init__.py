"""Networks and tables that the likelihoods are made of."""
