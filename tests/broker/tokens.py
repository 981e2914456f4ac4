"""Tokens that the tests' broker takes: JSON Web Tokens without a signature."""

import base64
import json
import time
from pathlib import Path

SECONDS = 5.0
"""How long a token lives."""


def unsigned(seconds: float = SECONDS) -> tuple[str, float]:
    """A token of now, and when it expires in seconds since 1970."""
    now = time.time()
    claims = {"sub": "sidecar", "iat": now, "exp": now + seconds, "scope": "kafka"}
    parts = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "none", "typ": "JWT"}, claims)
    )
    return f"{'.'.join(parts)}.", now + seconds


def token(config: str) -> tuple[str, float, str]:
    """What kafka.oauth names; writes each call to the file that sasl.oauthbearer.config names."""
    with Path(config).open("a", encoding="utf-8") as calls:
        calls.write("asked\n")
    return (*unsigned(), "sidecar")


def refused(config: str) -> tuple[str, float]:
    raise PermissionError("the role may not be assumed")


def milliseconds(config: str) -> tuple[str, float]:
    made, expires = unsigned()
    return made, expires * 1_000
