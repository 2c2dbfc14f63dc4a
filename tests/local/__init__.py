"""Tests of whole commands on loopback hosts."""
