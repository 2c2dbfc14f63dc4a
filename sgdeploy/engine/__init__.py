"""What we know of the engine: flags and log milestones, as data with one reader each."""
