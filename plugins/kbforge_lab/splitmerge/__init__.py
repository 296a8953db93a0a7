"""Split-merge kernels to compare with MinSM (`kbforge_lab.batch.splitmerge`).

| module | kernel | source |
|---|---|---|
| `two_clusters` | RGSM: a restricted Gibbs sampler proposes the split | Jain and Neal, 2004 |
| `two_clusters` | SDDS: the likelihood proposes splits and merges | Wang and Russell, 2015 |
| `opposite` | LSHSM: fragments on opposite sides of random directions | Luo and Shrivastava, 2018 |

`opposite` also has the ratios that LSHSM and MinSM were published with, which are not exact.
"""
