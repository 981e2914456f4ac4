"""Each case in lockstep with river, and with what river has once said."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.core.learners.lockstep import DIGESTS, RECORDS, run


@pytest.fixture(params=["recorded", pytest.param("river", marks=pytest.mark.slow)])
def lockstep(request: pytest.FixtureRequest) -> Callable[..., Iterator[Any]]:
    """``for learner, river in lockstep(…)`` runs a case, and gives both as they are when river has taken part to the end."""
    given = (value for name, value in request.node.callspec.params.items() if name != "lockstep")
    case = ", ".join(map(str, [request.node.originalname, *given]))

    def follow(*what: Any) -> Iterator[Any]:
        beside, record = request.param == "river", bool(os.environ.get("LOCKSTEP_RECORD"))
        whole = record or RECORDS != 1000
        learner, river, digest = run(*what, (1.0 if whole else 0.5) if beside else 0.0)
        known = json.loads(DIGESTS.read_text())
        if beside and record:
            known[case] = digest
            DIGESTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        assert digest == known[case] or RECORDS != 1000
        if beside:
            yield learner, river

    return follow
