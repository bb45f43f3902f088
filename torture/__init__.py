"""The torture suite: Sordino as a black box under kills, failing disks, races, mutated files and tampering. See README.md."""
