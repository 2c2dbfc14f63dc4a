"""The simulated engine, sent to hosts and imported by nobody."""
