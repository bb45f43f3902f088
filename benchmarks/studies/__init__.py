"""Long comparisons whose tables and figures stand in docs/studies."""
