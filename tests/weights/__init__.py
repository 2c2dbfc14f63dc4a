"""Splits of small checkpoints, held against the results of the reference and of the runtime."""
