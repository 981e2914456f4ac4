"""Errors that a user can cause: printed as one message, without a traceback."""


class UserError(Exception):
    """A problem, with the value seen and the remedy. Exit status 1."""


class SettingsError(UserError):
    """A setting or an argument is wrong. Exit status 2."""


class RecoveryError(UserError):
    """The stored state of a partition contradicts its topics; nothing was folded or published."""


class SnapshotError(UserError):
    """A snapshot that is torn, altered, not ours or not allowed. Nothing of it was loaded."""


class DamagedSnapshot(SnapshotError):
    """A snapshot that is torn or was altered. One before it may still be whole."""


class LaterVersion(SnapshotError):
    """A snapshot that a later version of the sidecar wrote: only that can go on with it."""

    def __init__(self, where: str, what: object) -> None:
        super().__init__(
            f"{where}: the snapshot was written by a later version of the sidecar ({what}), so that this one leaves the partition to instances "
            "that have it; install that version here too"
        )


AGAIN = 75
"""Exit status of a worker that cannot go on but may start again (EX_TEMPFAIL)."""
