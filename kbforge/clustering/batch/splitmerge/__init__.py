"""Kernels that split a cluster in two and merge two clusters.

`kernel` has what all of them share, `smart_dumb` what those with smart and dumb moves share.
`alike` is MinSM: fragments with the same weighted MinHash (Luo and Shrivastava, 2018).
"""
