"""Vocabulary of kvtune: types, names and units that processes share."""
