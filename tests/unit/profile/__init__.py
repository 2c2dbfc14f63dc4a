"""Tests of the room that reads profiles and inventories."""
