"""The likelihood `attributes`: records with several noisy attributes.

vocabulary   an attribute's values as numbers, with base probabilities; fragments as records
urn          the probability of an attribute's values in one cluster, and its rates
fitting      rates, discounts and alpha from unlabelled fragments
likelihood   the live clusters of a run, in Python and in the kernel, and the plugin
"""
