"""Fragments as canonical text: what a language model reads and what keys the score cache."""
