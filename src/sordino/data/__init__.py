"""Data sets and how they are shared out: sources by name or path, marked public or private, and partitioners."""
