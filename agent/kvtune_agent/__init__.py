"""The process beside the engine: takes configurations, holds their leases, reports what happened."""
