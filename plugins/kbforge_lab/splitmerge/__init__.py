"""Split-merge samplers that are here to be compared with."""
