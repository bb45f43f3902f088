"""Figures as small SVG of our own: drawn once here, for pages, for files and for print; a page's script only adds hovering."""
