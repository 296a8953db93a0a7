"""The likelihood `pairs`: a pretrained model of whether two fragments are one entity.

`table` reads fragments as rows of names and values, and `bags` weights their tokens by rarity;
`file` finds candidate pairs of rows and describes each with numbers that need no schema; `odds`
turns these features into log odds with trees; `likelihood` sums the log odds over clusters.
"""
