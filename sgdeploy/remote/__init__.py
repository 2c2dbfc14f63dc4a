"""Open lines to hosts: the node helper over SSH or as a subprocess."""
