"""Clusterers that go over all fragments again and again: Markov chains and merges.

| module | what is in it |
|---|---|
| grouping | one grouping of all fragments, changed move by move |
| moves | what can be done to a grouping, and the one place where it is done |
| grouping_model | what a likelihood says of the clusters of a grouping |
| editable_tables | live tables whose clusters fragments can leave, made of any live table |
| kernels, chain, chain_run, visits | what moves next; the chain; its run; the posterior it shows |
| merge_gains, pair_matrix, agglomerate | what merges gain; all pairs of them; merging |
| budget, outcome | how long a run may take, and what comes out of it |
"""
