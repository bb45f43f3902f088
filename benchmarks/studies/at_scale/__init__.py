"""Studies at the scale of the papers: one command each, resumable, with the grid written down first."""
