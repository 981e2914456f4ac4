"""iPFI and iSAGE of a mixture of learners in one compiled call."""

from __future__ import annotations

from typing import Any

import numpy as np

from explain_core.compiling import compiled
from explain_core.evaluation import learned_kernels as slots
from explain_core.evaluation.tree_kernels import draw_walks, predict_copies
from explain_core.learners.arrays import f8, i8, u8
from explain_core.learners.linear_kernels import predict_rows
from explain_core.learners.mixture_kernels import HEAD, KINDS, LINEAR, MEMBERS, OUTPUTS, begin, blend


@compiled
def explain_mixture(plan: Any, table: Any, x: Any, y: float) -> Any:
    """iPFI and iSAGE of a mixture; see ``explain_core.evaluation.learned_kernels.explained``."""
    state = u8(plan, slots.STATE)[0]
    pfi, sage = state[0], state[1]
    copies, joining = slots.replaced_copies(plan, x), slots.joining_copies(plan, x)
    state[0], state[1] = pfi, sage  # the same draws once more, as walks
    drawn, players = draw_walks(plan), i8(plan, slots.STARTS).shape[1] - 1
    steps = players - (1 if f8(plan, slots.EMPTY).shape[1] > 0 else 0) if len(joining) > 0 else 0
    out = np.empty((len(copies) + len(joining), i8(table, HEAD)[0, OUTPUTS]))
    begin(table, out)
    members, kinds, part = i8(table, MEMBERS)[0], i8(table, KINDS)[0], np.empty(out.shape)
    for m in range(len(kinds)):
        if kinds[m] == LINEAR:
            predict_rows(i8(members, m)[0], copies, part[: len(copies)])
            predict_rows(i8(members, m)[0], joining, part[len(copies) :])
        else:
            predict_copies(plan, i8(members, m)[0], x, drawn, steps, part)
        blend(table, 1 + m, part, out)
    return slots.explained(plan, out[: len(copies)], out[len(copies) :], y)
