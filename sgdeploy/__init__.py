"""sgdeploy: brings SGLang up on clusters."""

__version__ = "0.1.0"
