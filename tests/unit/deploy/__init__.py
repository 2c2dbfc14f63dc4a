"""Tests of the use cases over fake hosts."""
