"""Tokens that the tests' broker takes: JSON Web Tokens without a signature; who gives them, and who takes them."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.brokers import LONG_SESSION, GuardedBroker
from tests.loopback import serving

SECONDS = 5.0
"""How long a token lives."""

LISTENER = "SASL_PLAINTEXT"
SECRET = "a-secret-that-nobody-may-see"
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"


def guarded_broker(seconds: float) -> GuardedBroker:
    """One that ends a connection which has not shown a new token for so long."""
    listener = "listener.name.sasl_plaintext.oauthbearer"
    config = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{listener}.sasl.jaas.config": LOGIN,
        f"{listener}.connections.max.reauth.ms": str(round(1_000 * seconds)),
    }
    return GuardedBroker(LISTENER, config=config | LONG_SESSION)


def come(servers: str, oauth: str | None, **config: str) -> dict[str, str]:
    """The environment of one who shows tokens."""
    own = {"security.protocol": LISTENER, "sasl.mechanism": "OAUTHBEARER", **config}
    named = {} if oauth is None else {"EXPLAIN_KAFKA__OAUTH": oauth}
    return {"EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": servers, "EXPLAIN_KAFKA__CONFIG": json.dumps(own), **named}


@contextmanager
def oidc_server(seconds: float, asked: Callable[[str], object]) -> Iterator[dict[str, str]]:
    """A server of tokens that live for so long, and the settings of librdkafka that ask it. ``asked`` is told the path of each request."""

    def answer(path: str, body: bytes) -> tuple[int, bytes]:
        asked(path)
        token, _ = unsigned(seconds)
        return 200, json.dumps(
            {"access_token": token, "token_type": "Bearer", "expires_in": seconds}
        ).encode()

    with serving(answer) as address:
        yield {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "sidecar",
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.token.endpoint.url": f"{address}/token",
            "sasl.oauthbearer.scope": "kafka",
        }


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
