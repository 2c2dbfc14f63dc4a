"""Tools for tests."""
