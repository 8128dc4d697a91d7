"""How far a trace lets any policy come, and what of that is knowable."""
