"""Kernels that split a cluster in two and merge two clusters.

`clusters` has what splits and merges gain, `kernel` what all kernels share, and `alike` is MinSM:
fragments with the same weighted MinHash (Luo and Shrivastava, 2018).
"""
