# ARFClassifier and ARFRegressor. Row 2m or 2m + 1 of the trees is that of member m, the other one that in its background.

from libc.math cimport fabs, floor, isnan, pow, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from explain_core.engine.adwin cimport detect, reset
from explain_core.engine.arithmetic cimport total
from explain_core.engine.hoeffding cimport learn_tree, tree_votes
from explain_core.engine.layout cimport *
from explain_core.engine.mersenne cimport poisson
from explain_core.engine.target_splits cimport variance
from explain_core.engine.targets cimport add_target
from explain_core.engine.walks cimport release

cdef enum:
    UNKNOWN = -2  # a guess that nobody has made

cdef enum:  # Aggregation
    MEAN
    MEDIAN

cdef enum:  # Metric
    SQUARED_ERROR
    ABSOLUTE_ERROR
    ROOT_SQUARED_ERROR

cdef enum:  # MemberCounter
    WARNINGS
    DRIFTS


cdef inline int64_t favourite(Trees* t, int64_t tree, const double* votes) noexcept nogil:
    """The code of the class with the most votes among those that the tree has seen, −1 where it has seen none."""
    cdef int64_t best = -1, of
    cdef Py_ssize_t i
    for i in range(t.n_order):
        of = t.order[i]
        if t.seen[tree * t.size + of] == 1 and (best < 0 or votes[of] > votes[best]):
            best = of
    return best


cdef inline int64_t guess(Trees* t, int64_t tree, const double* x) noexcept nogil:
    """``predict_one``: the code of the class, −1 where the tree has seen none; the votes, by code, are in ``t.dense``."""
    tree_votes(t, tree, x, t.dense)
    return favourite(t, tree, t.dense)


cdef inline void empty_tree(Trees* t, int64_t tree) noexcept nogil:
    """Make a tree an empty one."""
    release(t, t.trees[tree].root)
    t.trees[tree] = Tree(-1, 0, 0, 0)
    memset(t.seen + tree * t.size, 0, t.size)


cdef inline void watch(Trees* t, int64_t member, double wrong) noexcept nogil:
    """Tell a member's detectors, and replace its trees where they say so."""
    cdef Member* own = &t.members[member]
    if t.of.warning_on != 0.0 and detect(t, 2 * member, &t.detectors[0], wrong):
        if own.background < 0:
            own.background = 4 * member + 1 - own.foreground
        empty_tree(t, own.background)
        reset(t, 2 * member)
        t.counters[2 * member + WARNINGS] += 1
    if t.of.drift_on != 0.0 and detect(t, 2 * member + 1, &t.detectors[1], wrong):
        empty_tree(t, own.foreground)
        if own.background >= 0:
            own.foreground, own.background = own.background, -1
            reset(t, 2 * member)
        reset(t, 2 * member + 1)
        t.accuracy[member] = Accuracy(0.0, 0.0)
        t.counters[2 * member + DRIFTS] += 1


cdef inline void learn_member(Trees* t, int64_t member, const double* x, double y, double k) noexcept nogil:
    cdef bint whole = k == floor(k)
    if t.members[member].background >= 0:
        learn_tree(t, t.members[member].background, x, y, k, whole, False)
    learn_tree(t, t.members[member].foreground, x, y, k, whole, True)


cdef inline void learn_classes(Trees* t, const double* x, int64_t y, double w) noexcept nogil:
    """``ARFClassifier.learn_one``. River knows no weight; here it is a factor of each tree's drawn one.

    ``t.guesses`` are what predicting the record has found; afterwards all are ``UNKNOWN``.
    """
    cdef int64_t member, guessed
    cdef double k
    for member in range(t.n_members):
        guessed, t.guesses[member] = t.guesses[member], UNKNOWN
        if guessed == UNKNOWN:
            guessed = guess(t, t.members[member].foreground, x)
        t.accuracy[member].all += 1.0
        if guessed == y:
            t.accuracy[member].right += 1.0
        k = w * poisson(t.of.rate, t.words, &t.head.position)
        if k > 0.0:
            learn_member(t, member, x, y, k)
            watch(t, member, 0.0 if guessed == y else 1.0)


cdef inline int64_t enter(Trees* t, int64_t tree, int64_t* entered, int64_t* order, int64_t known) noexcept nogil:
    """Append to ``order`` the classes that a tree has seen and that have not ``entered`` yet; how many there are then."""
    cdef int64_t of
    cdef Py_ssize_t i
    for i in range(t.n_order):
        of = t.order[i]
        if t.seen[tree * t.size + of] != 0 and entered[of] == 0:
            entered[of] = 1
            order[known] = of
            known += 1
    return known


cdef inline double vote_weight(Trees* t, int64_t member) noexcept nogil:
    """What a member's votes count for: its accuracy, where votes are weighted and it has any."""
    cdef Accuracy* own = &t.accuracy[member]
    cdef double right = own.right / own.all if own.all != 0.0 else 0.0
    return right if right > 0.0 and t.of.weighted != 0.0 else 1.0


cdef inline void count_votes(const double* votes, double weight, const int64_t* order, int64_t n, double* out) noexcept nogil:
    """Add a member's votes, by code."""
    cdef int64_t i
    for i in range(n):
        out[order[i]] += votes[order[i]] * weight


cdef inline void share_votes(double* out, const int64_t* order, int64_t n, double* scratch) noexcept nogil:
    """Votes to probabilities, by code; their sum is in the order of the prediction."""
    cdef double whole
    cdef int64_t i
    for i in range(n):
        scratch[i] = out[order[i]]
    whole = total(scratch, n, 1)
    if whole > 0.0:
        for i in range(n):
            out[order[i]] /= whole


cdef inline int64_t class_votes(Trees* t, const double* x, double* out, int64_t* order) noexcept nogil:
    """``predict_proba_one`` by code; the codes in river's order, and how many there are."""
    cdef int64_t known = 0, member, tree
    cdef int64_t* entered = <int64_t*> calloc(t.size, sizeof(int64_t))
    memset(out, 0, t.size * sizeof(double))
    for member in range(t.n_members):
        tree = t.members[member].foreground
        guess(t, tree, x)
        known = enter(t, tree, entered, order, known)
        count_votes(t.dense, vote_weight(t, member), order, known, out)
    free(entered)
    share_votes(out, order, known, t.votes)
    return known


cdef inline double summed(const double* values, Py_ssize_t n) noexcept nogil:
    """``numpy.sum`` of at most 128 numbers: eight sums side by side."""
    cdef double result = 0.0
    cdef double sums[8]
    cdef Py_ssize_t i, whole = n - n % 8
    if n < 8:
        for i in range(n):
            result += values[i]
        return result
    memset(sums, 0, sizeof(sums))
    for i in range(whole):
        sums[i % 8] += values[i]
    result = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
    for i in range(whole, n):
        result += values[i]
    return result


cdef inline double median(double* values, Py_ssize_t n) noexcept nogil:
    """``numpy.median``; the values are sorted in place, NaN last."""
    cdef Py_ssize_t i, j
    cdef double value
    for i in range(1, n):
        value, j = values[i], i
        while j > 0 and (value < values[j - 1] or (isnan(values[j - 1]) and not isnan(value))):
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
    if isnan(values[n - 1]):
        return values[n - 1]
    return values[n // 2] if n % 2 == 1 else (values[n // 2 - 1] + values[n // 2]) / 2.0


cdef inline double aggregate(Trees* t, double* values, double* weights) noexcept nogil:
    """``ARFRegressor.predict_one`` of what its trees predict; both arrays are used up."""
    cdef Py_ssize_t n = t.n_members, i
    cdef double whole = 0.0
    if t.of.aggregation == MEDIAN:
        return median(values, n)
    if t.of.weighted == 0.0:
        return summed(values, n) / n
    for i in range(n):
        weights[i] = t.accuracy[i].right  # the mean error
        if t.of.metric == ROOT_SQUARED_ERROR:
            weights[i] = pow(weights[i], 0.5)
        whole += weights[i]
    if whole == 0.0:
        return summed(values, n) / n
    for i in range(n):
        weights[i] = whole - weights[i]
    whole = summed(weights, n)
    for i in range(n):
        weights[i] = values[i] * (weights[i] / whole)
    return summed(weights, n) / n


cdef inline double member_number(Trees* t, int64_t member, const double* x) noexcept nogil:
    """What a member's tree predicts."""
    tree_votes(t, t.members[member].foreground, x, t.dense)
    return t.dense[0]


cdef inline void rate(Trees* t, int64_t member, double error) noexcept nogil:
    """Update a member's metric: its mean error, and the number of its predictions."""
    cdef double value = fabs(error) if t.of.metric == ABSOLUTE_ERROR else pow(error, 2.0)
    t.accuracy[member].all += 1.0
    t.accuracy[member].right += (1.0 / t.accuracy[member].all) * (value - t.accuracy[member].right)


cdef inline double normalised(Trees* t, int64_t member, double error) noexcept nogil:
    """``_drift_detector_input``: the place of an error among those between three deviations below and above 0."""
    cdef Variance* of = &t.norms[member]
    cdef double spread
    add_target(&of.n, &of.mean, &of.squares, error, 1.0)
    spread = sqrt(variance(of.n, of.squares))
    if of.n == 1.0 or not spread > 0.0:
        return 0.5
    return (error + 3.0 * spread) / (6.0 * spread)


cdef inline void learn_numbers(Trees* t, const double* x, double y, double w) noexcept nogil:
    """``ARFRegressor.learn_one``; see ``learn_classes``."""
    cdef bint watched = t.of.warning_on != 0.0 or t.of.drift_on != 0.0
    cdef int64_t member
    cdef double error, k
    for member in range(t.n_members):
        error = y - member_number(t, member, x)
        rate(t, member, error)
        k = w * poisson(t.of.rate, t.words, &t.head.position)
        if k > 0.0:
            learn_member(t, member, x, y, k)
            if watched:
                watch(t, member, normalised(t, member, error))
