"""Judging processes from observations; owns no clock."""
