# Leaves of regression trees: what they predict and learn, as in river's htr_nodes and splitters.
#
# A leaf's target is a running variance (Welford): its weight in stats, its mean and sum of squares in Target. An observer of a number
# keeps river's extended binary search tree: each point knows the targets of its own and of what came by to its left. That of a
# nominal feature is a chain of points, one a category.

from libc.math cimport fabs, floor, isnan, pow, rint
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from explain_core.engine.layout cimport *
from explain_core.engine.slopes cimport slope


cdef inline void add_target(double* weight, double* mean, double* squares, double y, double w) noexcept nogil:
    """``Var.update``."""
    cdef double before = mean[0]
    weight[0] += w
    mean[0] = before + (w / weight[0]) * (y - before)
    squares[0] = squares[0] + w * (y - before) * (y - mean[0])


cdef inline double rounded(double x, double scale) noexcept nogil:
    """``round(x, digits)`` for scale = 10 ** digits: the double next to the decimal next to x, of two the even one."""
    cdef double p = x * scale, t, xh, xl, sh, sl, error, whole
    if not fabs(p) < 9007199254740992.0:  # doubles lie further apart than the decimals
        return x
    t = x * 134217729.0
    xh = t - (t - x)
    xl = x - xh
    t = scale * 134217729.0
    sh = t - (t - scale)
    sl = scale - sh
    error = ((xh * sh - p) + xh * sl + xl * sh) + xl * sl  # x · scale is p + error
    whole = rint(p)
    if p - whole == 0.5 and error > 0.0:
        whole += 1.0
    elif p - whole == -0.5 and error < 0.0:
        whole -= 1.0
    return whole / scale


cdef inline void observe_number(Trees* t, int64_t observer, double value, double y, double w) noexcept nogil:
    """The ``update`` of ``EBSTSplitter``, ``TEBSTSplitter``, ``QOSplitter`` or ``NominalSplitterReg``."""
    cdef bint ordered = t.observers[observer].categorical == 0, under = False
    cdef double radius = t.of.radius if ordered else 0.0, point = value
    cdef int64_t cell = t.observers[observer].cells, before = -1
    cdef Point* of
    if radius > 0.0:
        point = floor(value / radius)
    elif ordered and t.of.scale > 0.0:
        point = rounded(value, t.of.scale)
    while cell >= 0 and point_at(t, cell).point != point:
        of = point_at(t, cell)
        before = cell
        under = ordered and point < of.point
        if under and radius == 0.0:
            add_target(&of.weight, &of.mean, &of.squares, y, w)
        cell = fork_at(t, cell).below if under else fork_at(t, cell).above
    if cell < 0:
        cell = take(t, CELL_POOL)
        memset(point_at(t, cell), 0, t.cell_width * sizeof(double))
        point_at(t, cell).point = point
        fork_at(t, cell).parent = before
        fork_at(t, cell).below = -1
        fork_at(t, cell).above = -1
        if before < 0:
            t.observers[observer].cells = cell
        elif under:
            fork_at(t, before).below = cell
        else:
            fork_at(t, before).above = cell
    of = point_at(t, cell)
    add_target(&of.weight, &of.mean, &of.squares, y, w)
    if radius > 0.0:
        of.place += (w / of.weight) * (value - of.place)


cdef inline double linear_target(Trees* t, int64_t leaf, const double* x) noexcept nogil:
    """What the leaf's linear regression predicts."""
    cdef const double* weights = t.models + leaf * t.model_width
    cdef double value = 0.0
    cdef Py_ssize_t i
    for i in range(t.n_columns):
        if not isnan(x[i]):
            value += x[i] * weights[i]
    return value + target_at(t, leaf).intercept


cdef inline bint asks_all(Trees* t, int64_t leaf) noexcept nogil:
    """Whether the leaf's prediction depends on all features, by its linear regression."""
    if t.of.manner == TARGET_ADAPTIVE:
        return not target_at(t, leaf).mean_error < target_at(t, leaf).model_error
    return t.of.manner == TARGET_MODEL


cdef inline double predict_target(Trees* t, int64_t leaf, const double* x) noexcept nogil:
    """The leaf's ``prediction``."""
    return linear_target(t, leaf, x) if asks_all(t, leaf) else target_at(t, leaf).mean


cdef inline void learn_target(Trees* t, int64_t leaf, const double* x, double y, double w) noexcept nogil:
    """The leaf's ``learn_one`` but for its observers."""
    cdef Target* own = target_at(t, leaf)
    cdef double* weights
    cdef double guess, gradient, step
    cdef Py_ssize_t i
    if t.of.manner != TARGET_MEAN:
        weights, guess = t.models + leaf * t.model_width, linear_target(t, leaf, x)
        if t.of.manner == TARGET_ADAPTIVE:
            own.mean_error = t.of.decay * own.mean_error + pow(y - own.mean, 2.0)
            own.model_error = t.of.decay * own.model_error + pow(y - guess, 2.0)
        gradient = slope(<int64_t> t.of.leaf_loss, y, guess, 1.0, 1.0) * w
        gradient = max(min(gradient, t.of.leaf_clip), -t.of.leaf_clip)
        own.intercept -= t.of.leaf_intercept_rate * gradient
        for i in range(t.n_columns):
            if not isnan(x[i]):
                step = x[i] * gradient
                if t.of.leaf_l2 != 0.0:
                    step += t.of.leaf_l2 * weights[i]
                weights[i] -= t.of.leaf_rate * step
    add_target(stats_at(t, leaf), &own.mean, &own.squares, y, w)
    leaf_at(t, leaf).count = 1


cdef inline void endow_target(Trees* t, int64_t child, Variance target, int64_t parent) noexcept nogil:
    """Give a new leaf its share of the target, and the linear regression of the leaf that split."""
    cdef Target* own = target_at(t, child)
    cdef Target* split = target_at(t, parent)
    leaf_at(t, child).count = 1
    stats_at(t, child)[0] = target.n
    own.attempted, own.mean, own.squares = target.n, target.mean, target.squares
    own.intercept, own.mean_error, own.model_error = split.intercept, split.mean_error, split.model_error
    if t.of.manner != TARGET_MEAN:
        memcpy(t.models + child * t.model_width, t.models + parent * t.model_width, t.model_width * sizeof(double))
