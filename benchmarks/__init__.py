"""Measurements: how long sgdeploy takes, beside what others take for the like in the same run (README.md here)."""
