"""Grammar files of language models and their package data; none is shipped yet."""
