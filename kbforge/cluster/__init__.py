"""Sequential Monte Carlo clustering: state, propose, merge, split, step."""
