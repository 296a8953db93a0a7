"""What to make of a reported probability on data nobody has labelled: covariates and shipped maps."""
