"""What a host is like, and whether it fits the plan."""
