"""From headers and a configuration to files: which bytes go where, proven before anything is written. Pure."""
