"""``explain-sidecar key``: make a key that signs snapshots, and show fingerprints."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from explain_sidecar.errors import UserError
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.signatures import UNSIGNED, fingerprint_of, new_key, read_keys


def new(file: Path | None) -> None:
    """Write a key to a new file, readable by its owner alone, or print it. Raises ``UserError`` for a file that cannot be made."""
    key = new_key()
    if file is None:
        sys.stdout.write(f"{key}\n")
    else:
        try:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
                made.write(f"{key}\n")
        except FileExistsError:
            raise UserError(
                f"{file} exists, and the keys in it may be in use; to change keys, make another file, and put the new key above the old ones"
            ) from None
        except OSError as error:
            raise UserError(f"{file} cannot be written: {error.strerror}") from None
    sys.stderr.write(f"fingerprint {fingerprint_of(key.encode())}\n")


def show(settings: Settings) -> None:
    keys = read_keys(settings.checkpoint)
    if not keys.keys:
        raise UserError(f"checkpoint.hmac_key_file is not set: {UNSIGNED}")
    for number, key in enumerate(keys.keys):
        sys.stdout.write(f"{fingerprint_of(key)}  {'signs' if number == 0 else 'accepted'}\n")
