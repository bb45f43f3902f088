"""What a run will take on this machine: seconds by phase and peak memory, from a short trial on made-up rows."""
