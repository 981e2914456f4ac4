"""Errors that a user can cause: printed as one message, without a traceback."""


class UserError(Exception):
    """A problem, with the value seen and the remedy. Exit status 1."""


class SettingsError(UserError):
    """A setting or an argument is wrong. Exit status 2."""


class RecoveryError(UserError):
    """The stored state of a partition contradicts its topics; nothing was folded or published."""


class SnapshotError(UserError):
    """A snapshot that is torn, altered, not ours or not allowed. Nothing of it was loaded."""


AGAIN = 75
"""Exit status of a worker that cannot go on but may start again (EX_TEMPFAIL)."""
