"""Offline clusterers: Markov chains and merges, which visit all fragments again and again.

| module | what is in it |
|---|---|
| grouping | one grouping of all fragments, changed move by move |
| grouping_model | moves, and what a likelihood says of the clusters of a grouping |
| chain, visits | kernels and the run of a chain; the posterior that its visits show |
| agglomerate | the gains of merges, and merging |
| splitmerge | kernels that split and merge clusters |
| run | how long a run may take, and what comes out of it |
"""
