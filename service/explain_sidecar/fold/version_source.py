"""Where the models of versions come from. It is asked outside the fold, before the record that needs one is folded."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from explain_core.artefacts.artefact import Artefact
from explain_sidecar.errors import UserError
from explain_sidecar.fold.models import forget_artefacts, version_artefact
from explain_sidecar.fold.versions import Unfit
from explain_sidecar.settings import Settings

ABSENT_SECONDS = 5.0
"""What was not there is looked for again after this long: records may name any version, and a registry is asked over the network."""

MAX_ABSENT = 1_000

log = logging.getLogger(__name__)


class VersionSource:
    """Finds the artefacts of versions by the settings ``models``. Why one cannot be taken is logged, once for each reason."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._absent: dict[str, tuple[float, str]] = {}

    def find(self, name: str, unfit: Unfit) -> Artefact | None:
        """The artefact of a version; None where there is none, or none that fits the partition."""
        until, reason = self._absent.get(name, (0.0, ""))
        if self._clock() < until:
            return None
        try:
            found = version_artefact(self._settings, name)
            problem = unfit(name, found)
            if problem is None:
                self._absent.pop(name, None)
                return found
            problem = f"models: version {name!r}: {problem}"
            forget_artefacts()
        except UserError as error:
            problem = str(error)
        if problem != reason:
            log.warning("%s", problem)
        if len(self._absent) >= MAX_ABSENT:
            self._absent.clear()
        self._absent[name] = self._clock() + ABSENT_SECONDS, problem
        return None
