"""The parts of the likelihood `attributes`: what a record's values say of who it is.

kinds        what sort of values an attribute has, and which features they share
vocabulary   an attribute's values as numbers, with base probabilities
rates        how often a value is a copy, a slip, a variant or unrelated; the readable file
distortion   G(u | v): how probable an observed value is if the true one is v
titles       how many words of a long text another keeps
dependence   how much less an agreement is worth where others agree already
urn          the marginal probability of an attribute's values in one cluster
live_urns    the live clusters of a run
model        the likelihood, once all rates are known
learning     rates from clusters, by expectation maximisation
fitting      all of it from unlabelled fragments
"""
