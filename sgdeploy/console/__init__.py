"""Everything that prints."""
