"""The parts of the likelihood `attributes`: what the values of a record say about its entity.

kinds        the kinds of attributes, the features that their values share, and counts of values
vocabulary   an attribute's values as numbers, with base probabilities
urn          the probability of an attribute's values in one cluster, and its rates
model        the live clusters of a run, in Python and in the kernel
fitting      rates, discounts and alpha from unlabelled fragments
likelihood   the plugin
"""
