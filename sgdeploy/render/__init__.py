"""The plan as readable bash scripts."""
