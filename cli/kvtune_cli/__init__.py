"""The kvtune command."""
