"""A mixture of learners: their weighted mean, the weights' update, the range of a target, and how its predictions are explained.

Rows of ``parts``, and ``weights``, have no model first and then the members in their order; all sums run in that order. All functions take the
table of ``explain_core.learners.mixture``.
"""

from libc.math cimport INFINITY, exp, fabs, isfinite, isnan
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from explain_core.engine.explaining cimport Plan
from explain_core.engine.layout cimport at_slot, point_to_arrays, width_of
from explain_core.engine.linear cimport learn_linear, predict_linear, predict_linear_copies
from explain_core.engine.stream cimport LINEAR
from explain_core.engine.trees cimport learn_trees, predict_tree_copies, predict_trees

cpdef enum:  # of target
    LOW  # what predictions, and targets that are learnt, are between
    HIGH
    SPREAD  # the range of the recent targets
    SEEN  # how many targets there were since the recent ones began anew
    HOME_LOW  # the range of the recent targets when there were first enough of them, which members keep
    HOME_SPREAD  # 0 before
    SHIFT  # the target is SHIFT + SCALE · what members learn and predict
    SCALE
    N_TARGET

cpdef enum:
    REGRESSION  # of head
    OUTPUTS

cpdef enum:
    EXTREMES = 2  # recent targets that may be anything, at either end
    FIRST = 8  # targets of which members learn nothing, so that all that they learn is within a range without the extremes; no weight changes before
    LATELY = 32  # targets that tell that the first unit is back
    PROPORTION = 16  # a range that is as many times as large as another, or as far off, is one in another unit

cdef extern from *:
    """
    /* By how much of the range of the recent targets LOW and HIGH are outside of it. */
    #define MARGIN 0.5
    """
    const double MARGIN


cdef struct Numbers:
    double share
    double floor
    double decay


cdef struct Target:
    double low
    double high
    double spread
    double seen
    double home_low
    double home_spread
    double shift
    double scale


cdef struct Mixture:
    # The arrays of ``explain_core.learners.mixture`` in their order.
    int64_t* head
    Numbers* of
    int64_t* members  # the table of the members' tables
    int64_t* kinds
    double* weights
    double* none  # a weight, and then counts of the classes or a mean, in the members' unit
    double* parts
    Target* target
    double* recent
    bint regression
    Py_ssize_t n, outputs, n_recent, n_none, n_parts  # n: no model and the members


cdef void open_mixture(const int64_t* table, Mixture* m) noexcept nogil:
    point_to_arrays(m, table, 9)
    m.regression, m.outputs = m.head[REGRESSION] != 0, m.head[OUTPUTS]
    m.n, m.n_none, m.n_parts, m.n_recent = width_of(table, 4), width_of(table, 5), width_of(table, 6), width_of(table, 8)


cdef double clipped(Mixture* m, double y) noexcept nogil:
    return min(max(y, m.target.low), m.target.high)


cdef double of_target(Mixture* m, double y) noexcept nogil:
    """A target in the unit of the members."""
    return (y - m.target.shift) / m.target.scale


cdef double to_target(Mixture* m, double z) noexcept nogil:
    """The target that a number in the unit of the members stands for, in the range."""
    return clipped(m, m.target.shift + m.target.scale * z)


cdef void no_model(Mixture* m, double* out) noexcept nogil:
    """What no model predicts: frequencies with half an observation more of each class (Krichevsky and Trofimov), or the mean."""
    cdef Py_ssize_t k
    if m.regression:
        out[0] = to_target(m, m.none[1])
        return
    for k in range(m.outputs):
        out[k] = (m.none[1 + k] + 0.5) / (m.none[0] + 0.5 * m.outputs)


cdef void normalise(Mixture* m, double* part) noexcept nogil:
    """A member's prediction: probabilities that sum to 1, or a number in the target's range; that of no model where it is none."""
    cdef double whole = 0.0
    cdef Py_ssize_t k
    if m.regression:
        part[0] = m.parts[0] if isnan(part[0]) else to_target(m, part[0])
        return
    for k in range(m.outputs):
        whole += part[k]
    if 0.0 < whole < INFINITY:
        for k in range(m.outputs):
            part[k] /= whole
    else:
        memcpy(part, m.parts, m.outputs * sizeof(double))


cdef void start(Mixture* m, double* out, Py_ssize_t rows) noexcept nogil:
    """Let no model predict so many records: rows × outputs."""
    cdef Py_ssize_t row, k
    no_model(m, m.parts)
    for row in range(rows):
        for k in range(m.outputs):
            out[row * m.outputs + k] = m.weights[0] * m.parts[k]


cdef void add_member(Mixture* m, Py_ssize_t member, double* predicted, Py_ssize_t rows, Py_ssize_t width, double* out) noexcept nogil:
    """Add the predictions of a member, from 1 on, by its weight: rows × width to rows × outputs; ``parts`` keeps that for the first record."""
    cdef Py_ssize_t row, k
    for row in range(rows):
        normalise(m, predicted + row * width)
        for k in range(m.outputs):
            out[row * m.outputs + k] += m.weights[member] * predicted[row * width + k]
    memcpy(m.parts + member * m.n_parts, predicted, m.outputs * sizeof(double))


cdef void share_out(Mixture* m) noexcept nogil:
    """Weights that sum to 1, of which all get the same of the part ``share``."""
    cdef double whole = 0.0
    cdef Py_ssize_t i
    for i in range(m.n):
        whole += m.weights[i]
    for i in range(m.n):
        m.weights[i] = (1.0 - m.of.share) * (m.weights[i] / whole) + m.of.share / m.n


cdef void reweigh(Mixture* m, double y) noexcept nogil:
    """Each weight times exp(−loss) of its member.

    Of classes that is Bayes' rule: times the probability that the member gave to what came, in which no model has the part ``floor``. Of numbers
    the loss is 2 · (squared error / squared range): Vovk's rate for the squared error in a range.
    """
    cdef Py_ssize_t i
    cdef double error
    for i in range(m.n):
        if m.regression:
            error = (m.parts[i * m.n_parts] - y) / m.target.spread
            m.weights[i] *= exp(-2.0 * (error * error))
        else:
            m.weights[i] *= (1.0 - m.of.floor) * m.parts[i * m.n_parts + <Py_ssize_t> y] + m.of.floor * m.parts[<Py_ssize_t> y]
    share_out(m)


cdef double rank(const double* recent, Py_ssize_t n, Py_ssize_t spare, double sign) noexcept nogil:
    """The value of the first n that is the lowest but ``spare``, at most EXTREMES; the highest with a sign of −1."""
    cdef double first = INFINITY, second = INFINITY, third = INFINITY, value
    cdef Py_ssize_t i
    for i in range(n):
        value = sign * recent[i]
        if value < first:
            first, second, third = value, first, second
        elif value < second:
            second, third = value, second
        elif value < third:
            third = value
    return sign * (first if spare == 0 else second if spare == 1 else third)


cdef bint grown(double low, double spread, double other_low, double other) noexcept nogil:
    """Whether a range is larger than another one, or away from it, out of all proportion."""
    return spread > PROPORTION * other or fabs((low + 0.5 * spread) - (other_low + 0.5 * other)) > PROPORTION * max(spread, other)


cdef void take_unit(Mixture* m, double lowest, double spread) noexcept nogil:
    """Let the range be to the target what its first range is to the members."""
    cdef double scale = spread / m.target.home_spread, shift = lowest - scale * m.target.home_low
    if 0.0 < scale < INFINITY and isfinite(shift):
        m.target.scale, m.target.shift = scale, shift


cdef bint like_home(Target* t, double low, double spread, bint enough) noexcept nogil:
    """Whether a range is in proportion to that which the members keep; it is too small only where there are ``enough`` targets to say so."""
    return not grown(low, spread, t.home_low, t.home_spread) and not (enough and PROPORTION * spread < t.home_spread)


cdef bint back_home(Mixture* m) noexcept nogil:
    """Whether the newest targets are in the first unit again, while larger ones are among the recent ones still."""
    cdef double[LATELY] newest
    cdef int64_t seen = <int64_t> m.target.seen, i
    cdef double low
    if seen < LATELY or m.n_recent < LATELY:
        return False
    for i in range(LATELY):
        newest[i] = m.recent[(seen - 1 - i) % m.n_recent]
    low = rank(newest, LATELY, EXTREMES, 1.0)
    return like_home(m.target, low, rank(newest, LATELY, EXTREMES, -1.0) - low, True)


cdef bint fit_unit(Mixture* m, double lowest, double spread, bint full) noexcept nogil:
    """Find the unit of the recent targets; returns false where they have to begin anew for it.

    Members keep the unit of their first full range. A range out of proportion to it is that of a target in another unit, or has more wild
    values than the extremes that are left out: the targets from here on tell which.
    """
    cdef Target* t = m.target
    cdef double low = t.shift + t.scale * t.home_low, own = t.scale * t.home_spread
    cdef bint turned = t.shift != 0.0 or t.scale != 1.0
    if t.home_spread == 0.0:
        if full:
            t.home_low, t.home_spread = lowest, spread
    elif like_home(t, lowest, spread, full):
        t.shift, t.scale = 0.0, 1.0
    elif turned and back_home(m):
        return False
    elif <Py_ssize_t> t.seen == FIRST + 1 or not full and turned:
        take_unit(m, lowest, spread)
    elif grown(lowest, spread, low, own):
        return False
    elif full and PROPORTION * spread < own:
        take_unit(m, lowest, spread)
    return True


cdef bint remember(Mixture* m, double y) noexcept nogil:
    """Take a target into the recent ones, whose range is that without ``EXTREMES`` at either end; returns whether there are enough of them to learn from."""
    cdef int64_t seen = <int64_t> m.target.seen
    cdef Py_ssize_t n, spare
    cdef double lowest, highest
    m.recent[seen % m.n_recent] = y
    m.target.seen += 1.0
    n = min(<Py_ssize_t> seen + 1, m.n_recent)
    if n <= FIRST and m.target.home_spread > 0.0:
        return False
    spare = min(<Py_ssize_t> EXTREMES, (n - 1) // 4)
    lowest, highest = rank(m.recent, n, spare, 1.0), rank(m.recent, n, spare, -1.0)
    if highest > lowest and not fit_unit(m, lowest, highest - lowest, n == m.n_recent):
        m.target.seen = 0.0
        return False
    m.target.spread = highest - lowest
    m.target.low, m.target.high = lowest - MARGIN * m.target.spread, highest + MARGIN * m.target.spread
    return n > FIRST


cdef void predict_mixture(const int64_t* table, const double* rows, Py_ssize_t n, Py_ssize_t width, double* out) noexcept nogil:
    """Predictions of n rows, rows × outputs; ``parts`` keeps those of the members for the first one."""
    cdef Mixture m
    cdef Py_ssize_t member
    cdef const int64_t* own
    cdef double* predicted
    open_mixture(table, &m)
    predicted = <double*> malloc(n * m.outputs * sizeof(double))
    start(&m, out, n)
    for member in range(1, m.n):
        own = <const int64_t*> at_slot(m.members, member - 1)
        if m.kinds[member - 1] == LINEAR:
            predict_linear(own, rows, n, width, predicted)
        else:
            predict_trees(own, rows, n, width, predicted, m.outputs)
        add_member(&m, member, predicted, n, m.outputs, out)
    free(predicted)


cdef bint take_in(const int64_t* table, double* y, bint known) noexcept nogil:
    """Take in the number, or the code of the class, of the record whose predictions are in ``parts``; returns whether members learn it, in their unit.

    A class that was not ``known`` when they were made changes no weight.
    """
    cdef Mixture m
    cdef Py_ssize_t k
    cdef bint learns
    open_mixture(table, &m)
    if m.regression:
        if m.target.seen > FIRST and m.target.spread > 0.0:
            reweigh(&m, clipped(&m, y[0]))
        learns = remember(&m, y[0])
        if not learns and m.target.home_spread > 0.0:
            return False
        y[0] = of_target(&m, clipped(&m, y[0]))
        m.none[0] = 1.0 + m.of.decay * m.none[0]
        m.none[1] = of_target(&m, to_target(&m, m.none[1] + (y[0] - m.none[1]) / m.none[0]))
        return learns
    if known:
        reweigh(&m, y[0])
    for k in range(m.n_none):
        m.none[k] *= m.of.decay
    m.none[0] += 1.0
    m.none[1 + <Py_ssize_t> y[0]] += 1.0
    return True


cdef int learn_mixture(
    const int64_t* table, const double* x, double y, double weight, bint known, bint explained, object room
) except -1:
    """``take_in``, and let the members learn. See ``explain_core.engine.stream.learn``."""
    cdef Mixture m
    cdef Py_ssize_t member
    cdef const int64_t* own
    if not take_in(table, &y, known):
        return 0
    open_mixture(table, &m)
    for member in range(m.n - 1):
        own = <const int64_t*> at_slot(m.members, member)
        if m.kinds[member] == LINEAR:
            learn_linear(own, x, y, weight)
        else:
            learn_trees(own, x, y, weight, explained, room, member)
    return 0


cdef double* predict_mixture_copies(const int64_t* table, Plan* p, const double* x, Py_ssize_t* width) noexcept nogil:
    """Draw, and predict the record and its copies, rows × ``width``, for the caller to free."""
    cdef Mixture m
    cdef Py_ssize_t member, n
    cdef uint64_t pfi = p.state[0], sage = p.state[1]
    cdef const int64_t* own
    cdef double* predicted
    cdef double* out
    cdef bint as_known
    open_mixture(table, &m)
    width[0] = m.outputs
    out = <double*> malloc(p.n_predicted * m.outputs * sizeof(double))
    start(&m, out, p.n_predicted)
    for member in range(1, m.n):
        p.state[0], p.state[1] = pfi, sage  # the same draws for each
        own = <const int64_t*> at_slot(m.members, member - 1)
        if m.kinds[member - 1] == LINEAR:
            predicted = predict_linear_copies(own, p, x, &n)
        else:
            predicted = predict_tree_copies(own, p, x, &n, &as_known)
        add_member(&m, member, predicted, p.n_predicted, n, out)
        free(predicted)
    return out


def learn(const int64_t[::1] table, const double[::1] x, double y, double weight, bint known, bint explained, room):
    """``learn_mixture``."""
    learn_mixture(&table[0], &x[0] if x.shape[0] else NULL, y, weight, known, explained, room)
