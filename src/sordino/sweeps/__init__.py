"""Grids of settings times seeds: checked first, run side by side, summed up, and chosen from at a price."""
