"""A Schema Registry over HTTP, by confluent-kafka's client, with its failures in our words."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NoReturn

from explain_sidecar.errors import SettingsError, UserError
from explain_sidecar.settings.sources import PREFIX
from explain_sidecar.settings.wire import RegistrySettings

_ANSWER_SECONDS = {"timeout": 4, "max.retries": 1, "retries.wait.ms": 200, "retries.max.wait.ms": 1_000}
"""An address that does not answer is reported within 10 s."""

_CONFLICT, _NOT_FOUND = 409, 404


class RegistryClient:
    """The registry at ``registry.url``. Nothing is sent to it before it is asked.

    Raises ``UserError`` where its extra is not installed or ``registry.config`` is wrong.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        if settings.url is None:
            raise SettingsError(
                f"registry.url is not set: name your Schema Registry in {PREFIX}REGISTRY__URL, "
                "http://host:port and its path"
            )
        try:
            from confluent_kafka import schema_registry
        except ImportError as error:
            raise UserError(
                f"registry.url: {error.name or error} is missing; it needs the extra `registry`: "
                "pip install 'explanation-sidecar[registry]'"
            ) from None
        for name in ("httpx", "httpx2"):  # a line for each request, on level info
            logging.getLogger(name).setLevel(logging.WARNING)
        self.url = settings.url
        self._error = schema_registry.SchemaRegistryError
        try:
            self.client = schema_registry.SchemaRegistryClient(
                {"url": settings.url, **_ANSWER_SECONDS, **settings.config}
            )
        except (ValueError, TypeError, OSError) as error:
            raise SettingsError(f"registry.config: {error}") from None

    def schema(self, key: str) -> Any:
        """The schema under a number or a GUID; None where there is none."""
        by = self.client.get_schema if key.isdecimal() else self.client.get_schema_by_guid
        return self._with_text(self.ask(None, by, int(key) if key.isdecimal() else key))

    def version(self, subject: str, version: int) -> Any:
        """The schema that a subject has under a version; None where there is none."""
        found = self.ask(None, self.client.get_version, subject, version)
        return None if found is None else self._with_text(found.schema)

    def _with_text(self, found: Any) -> Any:
        """The schema that was found. Raises ``UserError`` for one without text, as from a proxy: its records would be rejected for good."""
        if found is not None and not isinstance(getattr(found, "schema_str", None), str):
            self._silent(TypeError("there is no schema in the answer"))
        return found

    def register(self, subject: str, text: str, kind: str) -> int:
        """The number of a schema, registered under a subject unless it is there already."""
        from confluent_kafka.schema_registry import Schema

        number: int = self.ask(subject, self.client.register_schema, subject, Schema(text, schema_type=kind))
        return number

    def ask(self, subject: str | None, ask: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a call of the client. Raises ``UserError`` where it fails. ``subject``: the one that must have a schema; None where there need be none, which gives None."""
        try:
            return ask(*arguments)
        except self._error as error:
            if error.http_status_code == _NOT_FOUND and subject is None:
                return None
            self._refused(subject or "", error)
        except Exception as error:
            self._silent(error)

    def _silent(self, error: Exception) -> NoReturn:
        """The HTTP library, whose name depends on confluent-kafka's version, has errors of its own for each way not to answer."""
        raise UserError(
            f"registry.url {self.url}: no answer that can be used ({type(error).__name__}: {error}); check the "
            "address, and that the registry runs"
        ) from None

    def _refused(self, subject: str, error: Any) -> NoReturn:
        where = f"registry.url {self.url}"
        if error.http_status_code == _NOT_FOUND and subject:
            raise UserError(
                f"{where}: subject {subject!r} does not have this version's schema ({error}); `explain-sidecar schemas register` "
                "registers it, or every start where registry.auto_register is set"
            ) from None
        if error.http_status_code == _CONFLICT:
            raise UserError(
                f"{where}: subject {subject!r} has a schema that this one is not compatible with ({error}); look at the "
                "subject's compatibility level, or name another topic"
            ) from None
        raise UserError(
            f"{where}: it answers {error}; check the address (Confluent's: http://host:8081, Apicurio's: "
            "http://host:8080/apis/ccompat/v7), the rights, and registry.config"
        ) from None
