"""The node helper, driven as it really runs: as a process, over its wire."""
