"""What a page says of the model that is compared with the partition's."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from explain_client.messages import Explanation
from explain_client.words import of_loss
from explain_sidecar.http.history import Column

TOP = 8


def challenger(newest: Explanation, column: Column) -> dict[str, Any] | None:
    """Its name, its loss, the difference to the model's, which features it uses otherwise, and the largest differences of importance; None without one."""
    found, (estimator, loss) = newest.challenger, column
    if found is None:
        return None
    cells = found.importance_differences.get(estimator, {}).get(loss, {})
    difference = found.difference.get(loss)
    largest = sorted(cells.items(), key=lambda cell: -abs(cell[1].value or 0.0))[:TOP]
    return {
        "name": found.name,
        "loss": asdict(found.performance[loss]) if loss in found.performance else None,
        "difference": difference and asdict(difference) | {"sentence": of_loss(difference.sentence, loss)},
        "shift": None if found.explanation_shift is None else found.explanation_shift.sentence,
        "rows": [{"feature": name, **asdict(cell)} for name, cell in largest],
    }
