"""What can go wrong with a split, as errors of the family."""

from __future__ import annotations

from sgdeploy.errors import ProfileError, SgdeployError


class CheckpointError(ProfileError):
    """The checkpoint, the scheme, the sizes or the target are wrong; carries every problem."""


class TargetError(SgdeployError):
    """The target's file system is too small for what would be written, or fails."""

    exit_code = 3


class ReplicaError(SgdeployError):
    """The file system cannot do what was chosen for replicas."""

    exit_code = 2


class MismatchError(ProfileError):
    """A split and its manifest do not fit; carries every file that is wrong."""

    exit_code = 8
