"""Tests of what is shipped: the wheel, ./dev and the README."""
