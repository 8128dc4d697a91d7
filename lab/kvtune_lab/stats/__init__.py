"""Statistics of a trace: reuse, its intervals, users, working sets, spikes and wasted residency."""
