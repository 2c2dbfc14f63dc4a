"""One file per kind of hardware."""
