"""Errors that a user can cause: printed as one message, without a traceback."""


class UserError(Exception):
    """What is wrong, with the value seen, and what to do about it. Exit status 1."""


class SettingsError(UserError):
    """A setting or an argument is wrong. Exit status 2."""


class SnapshotError(UserError):
    """A snapshot that is torn, altered, not ours or not allowed. Nothing of it was loaded."""
