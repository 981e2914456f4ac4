"""Records, one after another, through what is compiled of an explained model: predicted, explained, learnt, measured, and kept as rows."""

import numpy as np

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from explain_core.engine.arithmetic cimport below
from explain_core.engine.ensembles cimport explain_ensemble
from explain_core.engine.explaining cimport Plan, open_plan
from explain_core.engine.linear cimport explain_linear, learn_linear
from explain_core.engine.mixture cimport explain_mixture, learn_mixture
from explain_core.engine.smoothing cimport Measured, measure
from explain_core.engine.trees cimport explain_trees, learn_trees

cpdef enum:
    MOST = 8  # groups of estimators, and reservoirs
    LONGEST = 100  # records of a block


cdef bint explain_by(int family, Plan* p, const int64_t* table, const double* x, double y) noexcept nogil:
    if family == LINEAR:
        return explain_linear(p, table, x, y)
    if family == TREES:
        return explain_trees(p, table, x, y)
    if family == MIXTURE:
        return explain_mixture(p, table, x, y)
    return explain_ensemble(p, table, x, y, family == SHALLOW)


cdef int learn_by(int family, const int64_t* table, const double* x, double y, double weight, bint explained, object room) except -1:
    if family == LINEAR:
        learn_linear(table, x, y, weight)
    elif family == TREES:
        learn_trees(table, x, y, weight, explained, room, 0)
    else:
        learn_mixture(table, x, y, weight, True, explained, room)
    return 0


def explain(int family, const int64_t[::1] plan, const int64_t[::1] table, const double[::1] x, double y):
    """iPFI and iSAGE of a record; ``y`` is the place of its class among the plan's labels, −1 for another one, or a number. See ``settle``."""
    cdef Plan p
    open_plan(&plan[0], &p)
    return explain_by(family, &p, &table[0], &x[0] if x.shape[0] else NULL, y)


def learn(int family, const int64_t[::1] table, const double[::1] x, double y, double weight, bint explained, room):
    """Learn a record; ``y`` is the code of its class, or a number.

    ``explained``: whether the record is the one that was explained, or predicted, last, so that the arrays hold what was found of it.
    ``room`` makes room in trees: for so many leaves that learn, for a record of so many features, of the member at that place.
    """
    learn_by(family, &table[0], &x[0] if x.shape[0] else NULL, y, weight, explained, room)
