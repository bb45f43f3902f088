"""Reports: what people look at."""
