"""Kernels that split a cluster in two and merge two clusters.

| module | kernel | source |
|---|---|---|
| `restricted_gibbs` | RGSM: a restricted Gibbs sampler proposes the split | Jain and Neal, 2004 |
| `likelihood_guided` | SDDS: the likelihood proposes splits and merges | Wang and Russell, 2015 |
| `opposite` | LSHSM: fragments on opposite sides of random directions | Luo and Shrivastava, 2018 |
| `alike` | MinSM: fragments with the same weighted MinHash | the same |

`kernel` has what they share, `smart_dumb` what the last three do, `published` the ratios that the
last two were published with, which are not exact.
"""
