"""Signatures of snapshots: what only foreign code understands is a program, and read from a signed snapshot alone."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from explain_sidecar.errors import SettingsError, SnapshotError, UserError
from explain_sidecar.settings.checkpoint import CheckpointSettings


@dataclass(frozen=True)
class Keys:
    """What a manifest is signed with, and which manifests are accepted. Without anything given none is."""

    keys: tuple[bytes, ...] = ()
    allow_unsigned: bool = False

    def __repr__(self) -> str:
        return f"{len(self.keys)} keys"

    def sign(self, value: bytes) -> bytes | None:
        """HMAC-SHA-256 of a manifest under the first key; None without keys."""
        return hmac.digest(self.keys[0], value, "sha256") if self.keys else None

    @property
    def fingerprint(self) -> str | None:
        """Of the key that signs."""
        return fingerprint_of(self.keys[0]) if self.keys else None

    def check(self, value: bytes, signature: bytes | None) -> bool:
        """Whether one of the keys signed the manifest, so that what it vouches for may hold foreign code.

        Raises ``SnapshotError`` for a signature of another key, and for none where there is a key.
        """
        if not self.keys or (signature is None and self.allow_unsigned):
            return False
        if signature is None:
            raise SnapshotError(
                "checkpoint manifest: it has no signature; it was not written by this sidecar, or before it had a key: "
                "checkpoint.allow_unsigned=true accepts it"
            )
        if not any(hmac.compare_digest(hmac.digest(key, value, "sha256"), signature) for key in self.keys):
            said = re.search(rb'"key": ?"([0-9a-f]{16})"', value)
            theirs = f"names the key {said[1].decode()}" if said else "names no key"
            ours = ", ".join(map(fingerprint_of, self.keys))
            raise SnapshotError(
                f"checkpoint manifest: its signature fits none of the keys in checkpoint.hmac_key_file ({ours}); it {theirs}. "
                "It was not written by this sidecar, or with another key: add that one as a further line of the file"
            )
        return True


def new_key() -> str:
    """A key as a line of the file: 32 random bytes."""
    return secrets.token_hex(32)


def fingerprint_of(key: bytes) -> str:
    """A name for a key that gives nothing of it away: the first 8 bytes of a SHA-256, in hexadecimal."""
    return hashlib.sha256(b"explain-sidecar snapshot key\0" + key).hexdigest()[:16]


UNSIGNED = (
    "snapshots are not signed: whoever can write to the checkpoints topic can falsify a model. Make a key with "
    "`explain-sidecar key new`, and name its file in checkpoint.hmac_key_file"
)


def read_keys(settings: CheckpointSettings) -> Keys:
    """The keys that the settings name, one a line of the file; the first signs.

    Raises ``UserError`` for a file without keys.
    """
    path = settings.hmac_key_file
    if path is None:
        return Keys(allow_unsigned=settings.allow_unsigned)
    try:
        keys = tuple(line.strip() for line in path.read_bytes().splitlines() if line.strip())
    except OSError as error:
        raise UserError(f"checkpoint.hmac_key_file: {path} cannot be read: {error.strerror}") from None
    if not keys or min(map(len, keys)) < 16:
        raise UserError(
            f"checkpoint.hmac_key_file: {path} needs at least one key, one a line, of 16 characters or more"
        )
    return Keys(keys, settings.allow_unsigned)


def check_trust(keys: Keys, foreign: str | None) -> None:
    """Raise ``SettingsError`` where snapshots would hold ``foreign`` code and no key signs them."""
    if foreign and not keys.keys:
        raise SettingsError(
            f"checkpoint.hmac_key_file is not set, and {foreign} is stored by its own code, which runs when a snapshot is read: only from a "
            "signed one. Make a key: explain-sidecar key new snapshot.keys, and set EXPLAIN_CHECKPOINT__HMAC_KEY_FILE=snapshot.keys for every "
            "instance"
        )
