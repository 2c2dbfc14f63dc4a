"""The real engine on CPU: brought up by sgdeploy over SSH, and compared with the simulated one (docs/engine.md)."""
