"""Which settings to use, found on public data alone: a stand-in federation, corners of the four axes, and the file with its evidence."""
