"""Checkpoints cut into the files that each rank loads: ``cut`` plans and proves it, ``disk`` does it."""
