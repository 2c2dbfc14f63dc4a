"""Where the values of a plan come from: what said each, where it stands, and what it overrode."""
