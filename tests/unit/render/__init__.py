"""Tests of the rendered scripts."""
