"""The cache itself: tiers, eviction and the serving model of a replay. Pure."""
