"""Implementations of the control plane's ports: files, HTTP to agents. Only composition roots import them."""
