"""Offline work: traces, the traffic generator and driver, static grids."""
