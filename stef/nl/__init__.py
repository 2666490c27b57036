"""Reads a question, or its expansion, into a `QuerySpec`; pure, all words come from the lexicon."""
