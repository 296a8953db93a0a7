"""What a larger file would take: measure growing parts of one, fit their costs, plan past them."""
