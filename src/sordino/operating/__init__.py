"""What operators do: check a node before it starts, run it, run the server, and see that both are well."""
