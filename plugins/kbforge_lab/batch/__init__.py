"""Offline clusterers: Markov chains and merges that visit all fragments repeatedly.

| module | contents |
|---|---|
| grouping | one grouping of all fragments, and the moves that change it |
| grouping_model | what a likelihood says of the clusters of a grouping |
| chain, visits | kernels and the run of a chain; the posterior of the groupings that it visits |
| agglomerate | the gains of merges, and merging |
| splitmerge | kernels that split and merge clusters |
| run | the time that a run may take, and how it ends |
"""
