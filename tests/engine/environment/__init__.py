"""What `./dev engine` makes `.engine` from; docs/engine.md says how."""
