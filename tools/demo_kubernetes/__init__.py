"""`make demo-kubernetes`: the operator on a real control plane, from nothing to a promoted configuration."""
