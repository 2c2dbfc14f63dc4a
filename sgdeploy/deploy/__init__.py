"""The use cases: up, down, status, in order over time."""
