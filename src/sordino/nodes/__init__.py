"""Who the nodes of a federation are: keys, certificates, start kits, and a roster of who was there when."""
