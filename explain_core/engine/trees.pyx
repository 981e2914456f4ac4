"""Learners made of trees: what they learn and predict, and how their predictions are explained.

All functions take a learner's table of arrays (``explain_core.learners.arrays``), with the slots of ``explain_core.learners.layout``.
"""

from statistics import NormalDist

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from explain_core.engine.adaptive cimport adaptive_probabilities, learn_adaptive
from explain_core.engine.explaining cimport Plan, open_plan, settle_codes
from explain_core.engine.forests cimport aggregate, class_votes, learn_classes, learn_numbers, member_number
from explain_core.engine.hoeffding cimport learn_tree, tree_probabilities
from explain_core.engine.layout cimport Trees, get_scratch, give_scratch, open_trees, short_of_rows
from explain_core.engine.targets cimport rounded as rounded_to
from explain_core.engine.tree_walks cimport Walks, get_walks, predict_copies

cdef bint BY_ERFC = "erfc" in NormalDist.cdf.__code__.co_names
"""How this Python computes the normal distribution."""


def learn_one(const int64_t[::1] table, const double[::1] x, double y, double weight):
    """Learn a record by a single tree; minus the number of leaves that learn where there may be no room for it, and then nothing has changed.

    ``y`` is the code of a class, or a number.
    """
    cdef Trees t
    open_trees(&table[0], &t)
    if short_of_rows(&t, 1):
        return -1
    get_scratch(&t)
    learn_tree(&t, 0, &x[0], y, weight, False, True)
    give_scratch(&t)
    return 0


def learn_one_adaptive(const int64_t[::1] table, const double[::1] x, double y, double weight):
    """``learn_one``, by an adaptive tree."""
    cdef Trees t
    open_trees(&table[0], &t)
    return learn_adaptive(&t, &x[0], y, weight, BY_ERFC)


def learn_one_forest(const int64_t[::1] table, const double[::1] x, double y, double weight):
    """``learn_one``, by a forest."""
    cdef Trees t
    open_trees(&table[0], &t)
    if short_of_rows(&t, 2 * t.n_members):
        return -2 * t.n_members
    get_scratch(&t)
    if t.regression:
        learn_numbers(&t, &x[0], y, weight)
    else:
        learn_classes(&t, &x[0], <int64_t> y, weight)
    give_scratch(&t)
    return 0


def predict_rows(const int64_t[::1] table, const double[:, ::1] rows, double[:, ::1] out):
    """Predictions of encoded rows by a tree, rows × classes in river's order; of a regression, also by a forest, rows × 1."""
    cdef Trees t
    cdef double* by_code
    cdef double* values
    cdef Py_ssize_t row, i
    open_trees(&table[0], &t)
    get_scratch(&t)
    by_code = <double*> malloc((t.size + 2 * t.n_members) * sizeof(double))
    values = by_code + t.size
    for row in range(rows.shape[0]):
        if t.n_members > 0:
            for i in range(t.n_members):
                values[i] = member_number(&t, i, &rows[row, 0])
            out[row, 0] = aggregate(&t, values, values + t.n_members)
            continue
        if t.adaptive:
            adaptive_probabilities(&t, &rows[row, 0], by_code)
        else:
            tree_probabilities(&t, &rows[row, 0], by_code)
        for i in range(out.shape[1]):
            out[row, i] = by_code[t.order[i]]
    free(by_code)
    give_scratch(&t)


def predict_forest(const int64_t[::1] table, const double[::1] x, double[::1] out, int64_t[::1] order):
    """``predict_proba_one`` of a forest into ``out``, and the codes of its classes into ``order``; how many there are."""
    cdef Trees t
    cdef double* by_code
    cdef int64_t n, i
    open_trees(&table[0], &t)
    get_scratch(&t)
    by_code = <double*> malloc(t.size * sizeof(double))
    n = class_votes(&t, &x[0], by_code, &order[0])
    for i in range(n):
        out[i] = by_code[order[i]]
    free(by_code)
    give_scratch(&t)
    return n


def predict_codes(const int64_t[::1] table, const double[:, ::1] rows, double[:, ::1] out):
    """``predict_forest`` of rows, rows × codes."""
    cdef Trees t
    cdef double* by_code
    cdef Py_ssize_t row
    if out.shape[1] == 0:
        return
    open_trees(&table[0], &t)
    get_scratch(&t)
    by_code = <double*> malloc(2 * t.size * sizeof(double))
    for row in range(rows.shape[0]):
        class_votes(&t, &rows[row, 0], by_code, <int64_t*> (by_code + t.size))
        memcpy(&out[row, 0], by_code, out.shape[1] * sizeof(double))
    free(by_code)
    give_scratch(&t)


def explain_trees(const int64_t[::1] plan, const int64_t[::1] table, const double[::1] x, double y):
    """iPFI and iSAGE of a record; see ``settle``. False too where the plan has the classes in another order than the prediction."""
    cdef Trees t
    cdef Plan p
    cdef Walks w
    cdef double* out
    cdef bint good
    open_trees(&table[0], &t)
    open_plan(&plan[0], &p)
    get_scratch(&t)
    get_walks(&w, &t, &p, &x[0])
    out = <double*> malloc(w.outputs * t.size * sizeof(double))
    good = predict_copies(&w, out) and settle_codes(&p, out, out + w.copies * t.size, t.size, y)
    free(out)
    free(w.memory)
    give_scratch(&t)
    return good


def rounded(double x, double scale):
    """``round(x, digits)`` for scale = 10 ** digits."""
    return rounded_to(x, scale)
