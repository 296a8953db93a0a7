"""What to make of a report on data that nobody has labelled: covariates and shipped maps."""
