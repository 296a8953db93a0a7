"""The likelihood `pairs`: a pretrained model of whether two fragments are one entity.

`table` reads fragments as rows of names and values, whose tokens `bags` weighs by rarity; `file`
finds candidate pairs of rows and describes each by numbers that need no schema; `odds` turns these
features into log odds by trees; `likelihood` sums the log odds over clusters.
"""
