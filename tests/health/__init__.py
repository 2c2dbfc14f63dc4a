"""Tests of the health state machine, from time lines of observations."""
