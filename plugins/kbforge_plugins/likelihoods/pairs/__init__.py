"""The likelihood `pairs`: a pretrained model of whether two fragments are one entity.

`table` reads fragments as rows of names and values, and `bags` weights their tokens by rarity;
`near` finds candidate pairs of rows; `file` names the numbers that describe each without a schema;
`odds` turns these features into log odds with trees; `likelihood` sums the log odds over clusters.
The kernel searches, describes and applies the trees; `tests/likelihoods/pairs/oracle.py` is a
readable reference in Python.
"""
