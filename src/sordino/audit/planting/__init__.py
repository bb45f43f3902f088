"""Canaries in an experiment's own rounds: crafted work of clients, in the method, mechanism, placement and engine that it names."""
