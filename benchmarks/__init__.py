"""Every comparison that keeps the fast core fast: `python -m benchmarks`."""
