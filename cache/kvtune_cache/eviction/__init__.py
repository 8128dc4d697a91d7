"""Eviction policies: one algorithm a file, all over one block table, all behind policy.py."""
