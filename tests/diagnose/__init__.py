"""Tests of the diagnosis: rules, reasoning over all ranks, advice."""
