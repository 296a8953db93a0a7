"""A pretrained model of pairs: how probable is it that two fragments are of one entity?

`texts` reads strings in several forms; `bags` weighs their tokens by rarity; `records` makes a
table of the different fragments of a file; `candidates` says which pairs are worth a look;
`names`, `agreements` and `standing` describe pairs by numbers that need no schema; `description`
puts them in one row; `odds` turns rows into log odds by trees; `live_pairs` sums them over
clusters.
"""
