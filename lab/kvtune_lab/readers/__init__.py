"""Readers of traces: one module a format, detection by content, streams however they are packed."""
