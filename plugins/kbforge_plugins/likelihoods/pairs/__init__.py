"""A pretrained model of pairs: a score for "these two fragments are the same entity".

`table` reads fragments as rows of names and values; `bags` weighs their tokens by rarity;
`features` describes a pair of rows by numbers that need no schema; `file` holds what a file says of
its pairs, and which pairs are candidates; `odds` turns features into log odds by trees;
`likelihood` sums them over clusters; `keeping` writes and reads the parts of a fitted model.
"""
