"""Grammars of texts, compiled to tables of legal tokens.

rules     a grammar file            -> a syntax tree
dfa       a syntax tree             -> a minimal deterministic automaton over characters
skeleton  the automaton             -> the strings of a text and the symbols between them
interior  (what may stand in a string: UTF-8, not empty)
table     skeleton x interior x BPE -> legal tokens and next state, by state
codec     texts                     -> tokens, and back
"""
