"""The command line: one short file per command, wired lazily."""
