"""What can go wrong with a split, as errors of the family."""

from __future__ import annotations

from sgdeploy.errors import ProfileError, SgdeployError


class CheckpointError(ProfileError):
    """The checkpoint, the scheme, the sizes or the target are wrong; carries every problem."""


class SpaceError(SgdeployError):
    """The target's file system is too small for what would be written."""

    exit_code = 3
