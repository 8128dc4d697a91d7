"""Decide what to try, how to compare it and what follows. Pure: no I/O, no clock, no unseeded randomness."""
