"""The plan: profile and inventory become processes, computed once."""
