"""Grammars of texts, compiled to tables of legal tokens.

rules     a grammar file         -> a minimal automaton over characters
skeleton  the automaton          -> strings, and the symbols between them
tokens    skeleton x BPE pieces  -> legal tokens and next states; texts to tokens
"""
