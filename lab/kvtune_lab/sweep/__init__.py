"""Sweeps: many setups of a cache on one trace, kept row by row."""
