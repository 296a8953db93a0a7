"""The likelihood `attributes`: records with several noisy attributes.

vocabulary   an attribute's values as numbers, with base probabilities; fragments as records
urn          the probability of an attribute's values in one cluster, its rates, and live clusters
fitting      rates, discounts and alpha from unlabelled fragments
likelihood   the plugin
"""
