"""The demo: the whole loop on one machine, live, within minutes."""
