"""Tests of facts and preflight, from recorded hosts."""
