"""Learners made of trees: what they learn and predict, and how their predictions are explained.

All functions take a learner's table of arrays (``explain_core.learners.arrays``), with the slots of ``explain_core.learners.layout``.
"""

from statistics import NormalDist

from libc.math cimport isnan
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from explain_core.engine.adaptive cimport adaptive_probabilities, learn_adaptive
from explain_core.engine.explaining cimport Plan
from explain_core.engine.forests cimport UNKNOWN, aggregate, class_votes, enter, learn_classes, learn_numbers, member_number
from explain_core.engine.hoeffding cimport learn_tree, tree_votes
from explain_core.engine.layout cimport Trees, get_scratch, give_scratch, open_trees, rows_of, short_of_rows
from explain_core.engine.targets cimport rounded as rounded_to
from explain_core.engine.tree_walks cimport Walks, get_walks, predict_copies

cdef bint BY_ERFC = "erfc" in NormalDist.cdf.__code__.co_names
"""How this Python computes the normal distribution."""


cdef int learn_trees(
    const int64_t* table, const double* x, double y, double weight, bint explained, object room, Py_ssize_t member
) except -1:
    """Learn a record; ``y`` is the code of a class, or a number. See ``explain_core.engine.stream.learn``.

    Where there may be no room for it, ``room`` is called with the number of leaves that learn, that of the features of the record, and ``member``.
    """
    cdef int64_t leaves, features, j
    while True:
        leaves = try_to_learn(table, x, y, weight, explained)
        if leaves == 0:
            return 0
        features = 0
        for j in range(rows_of(table, 14)):
            features += not isnan(x[j])
        room(-leaves, features, member)


cdef int64_t try_to_learn(const int64_t* table, const double* x, double y, double weight, bint explained) noexcept nogil:
    """Minus the number of leaves that learn where there may be no room for it, and then nothing has changed.

    A forest that has not drawn yet how many features its leaves sample has no room.
    """
    cdef Trees t
    cdef int64_t leaves, i
    open_trees(table, &t)
    if t.adaptive:
        return learn_adaptive(&t, x, y, weight, BY_ERFC)
    leaves = max(2 * t.n_members, 1)
    if short_of_rows(&t, leaves) or (t.n_members > 0 and t.head.n_features == 0):
        return -leaves
    get_scratch(&t)
    if t.n_members == 0:
        learn_tree(&t, 0, x, y, weight, False, True)
    elif t.regression:
        learn_numbers(&t, x, y, weight)
    else:
        for i in range(0 if explained else t.n_members):
            t.guesses[i] = UNKNOWN
        learn_classes(&t, x, <int64_t> y, weight)
    give_scratch(&t)
    return 0


cdef void predict_trees(
    const int64_t* table, const double* rows, Py_ssize_t n, Py_ssize_t width, double* out, Py_ssize_t size
) noexcept nogil:
    """Predictions of n rows: rows × the first ``size`` classes by their codes, or rows × 1."""
    cdef Trees t
    cdef double* by_code
    cdef double* values
    cdef Py_ssize_t row, i
    cdef const double* x
    open_trees(table, &t)
    get_scratch(&t)
    by_code = <double*> malloc(2 * (t.size + t.n_members) * sizeof(double))
    values = by_code + t.size
    for row in range(n):
        x = rows + row * width
        if t.regression and t.n_members > 0:
            for i in range(t.n_members):
                values[i] = member_number(&t, i, x)
            by_code[0] = aggregate(&t, values, values + t.n_members)
        elif t.n_members > 0:
            class_votes(&t, x, by_code, <int64_t*> values)
        elif t.adaptive:
            adaptive_probabilities(&t, x, by_code)
        else:
            tree_votes(&t, 0, x, by_code)
        memcpy(out + row * size, by_code, size * sizeof(double))
    free(by_code)
    give_scratch(&t)


def entered(const int64_t[::1] table, int64_t[::1] order):
    """The codes of the classes of a forest's prediction, in its order, into ``order``; how many there are."""
    cdef Trees t
    cdef int64_t member, n = 0
    cdef int64_t* met
    open_trees(&table[0], &t)
    met = <int64_t*> calloc(t.size, sizeof(int64_t))
    for member in range(t.n_members):
        n = enter(&t, t.members[member].foreground, met, &order[0], n)
    free(met)
    return n


cdef double* predict_tree_copies(const int64_t* table, Plan* p, const double* x, Py_ssize_t* width, bint* as_known) noexcept nogil:
    """Draw, and predict the record and its copies, rows × ``width``, for the caller to free; ``as_known``: see ``predict_copies``."""
    cdef Trees t
    cdef Walks w
    cdef double* out
    open_trees(table, &t)
    get_scratch(&t)
    get_walks(&w, &t, p, x)
    width[0] = t.size
    out = <double*> malloc(p.n_predicted * t.size * sizeof(double))
    as_known[0] = predict_copies(&w, out)
    free(w.memory)
    give_scratch(&t)
    return out


def rounded(double x, double scale):
    """``round(x, digits)`` for scale = 10 ** digits."""
    return rounded_to(x, scale)
