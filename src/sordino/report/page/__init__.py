"""The report: one page that needs no network, made of finished runs."""
