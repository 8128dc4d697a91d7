"""ReuseAware: keep the blocks whose next use costs least time in the cache, learned from what comes back."""
