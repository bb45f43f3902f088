"""All clients on this machine: their work in threads, or stacked where a job says how."""
