"""How much cache a trace is worth: curves, tiers, prices, a recommendation."""
