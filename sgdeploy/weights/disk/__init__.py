"""The edge of the weights room: reads checkpoints, writes splits, resumes, links and verifies them."""
