"""Each case in lockstep with river, and with what river has once said."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.core.learners.lockstep import DIGESTS, RECORDS, run


@pytest.fixture
def lockstep(request: pytest.FixtureRequest) -> Callable[..., Iterator[Any]]:
    """``for learner, river in lockstep(…)`` runs a case, and gives both after the share of the stream that river has seen; not where slow tests are left out."""
    given = request.node.callspec.params.values() if hasattr(request.node, "callspec") else ()
    case = ", ".join(map(str, [request.node.originalname, *given]))

    def follow(*what: Any, share: float = 0.3) -> Iterator[Any]:
        record = bool(os.environ.get("LOCKSTEP_RECORD"))
        beside = record or request.config.option.markexpr != "not slow"
        whole = record or RECORDS != 1000
        learner, river, digest = run(*what, (1.0 if whole else share) if beside else 0.0)
        known = json.loads(DIGESTS.read_text())
        if record:
            known[case] = digest
            DIGESTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        assert digest == known[case] or RECORDS != 1000
        if beside:
            yield learner, river

    return follow
