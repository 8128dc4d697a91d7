"""Tests of ReuseAware."""
