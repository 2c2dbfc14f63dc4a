"""Tests of one room each."""
