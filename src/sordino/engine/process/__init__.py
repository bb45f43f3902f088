"""Each client in a process of its own, spoken to over a socket: the boundary of a real federation, on one machine."""
