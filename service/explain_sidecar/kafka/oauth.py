"""Tokens for OAUTHBEARER from a function of the user's, as clouds want them: MSK IAM, Azure, Google."""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from explain_sidecar.errors import SettingsError

Token = tuple[str, float] | tuple[str, float, str] | tuple[str, float, str, dict[str, str]]
"""The token, when it expires in seconds since 1970, and where there are such the principal and SASL extensions."""

log = logging.getLogger(__name__)


@cache
def token_source(name: str) -> Callable[[str], Token]:
    """What a client asks for a token when it connects, and again before it expires: ``module:function``, given ``sasl.oauthbearer.config``.

    Raises ``SettingsError`` where there is no such function. What it raises later is logged, and the client tries again.
    """
    module, _, function = name.partition(":")
    try:
        given: Any = getattr(importlib.import_module(module), function)
    except Exception as error:
        raise SettingsError(
            f"kafka.oauth: {name!r} cannot be imported: {type(error).__name__}: {error}"
        ) from None
    if not callable(given):
        raise SettingsError(f"kafka.oauth: {name!r} is a {type(given).__name__}; name a function")

    def token(config: str) -> Token:
        try:
            made = tuple(given(config))
        except Exception as error:
            log.warning("kafka.oauth: %s failed: %s: %s", name, type(error).__name__, error)
            raise
        if not 2 <= len(made) <= 4 or not isinstance(made[0], str) or not isinstance(made[1], int | float):
            log.warning(
                "kafka.oauth: %s must return (token, when it expires in seconds since 1970[, principal[, extensions]])",
                name,
            )
            raise ValueError(name)
        if made[1] > 100 * time.time():
            log.warning("kafka.oauth: %s gives the time of expiry in milliseconds; it must be seconds", name)
            raise ValueError(name)
        return made

    return token
