# Where a leaf of a classification tree would split: river's criteria and split suggestions.

from libc.math cimport INFINITY, erf, log, log2, pow, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from explain_core.engine.arithmetic cimport total
from explain_core.engine.bayes cimport weight_of
from explain_core.engine.layout cimport *
from explain_core.engine.walks cimport split_node

cdef extern from *:
    """
    #define SQRT_2 1.4142135623730951
    """
    const double SQRT_2

cdef enum:  # Outcome: of an attempt to split, instead of a branch
    STAYS = -2
    NULL_SPLIT = -1


cdef struct Choice:  # whether to split, and at what
    bint split
    int64_t observer  # −1 for the null split
    int64_t kind  # a leaf for none
    double point  # threshold or category
    double merit


cdef struct Branches:
    # The class distributions of a split's branches: branch i has ``lengths[i]`` weights and classes from ``starts[i]`` on.
    double* values
    int64_t* codes
    int64_t* starts
    int64_t* lengths
    double* categories  # of a multiway split's branches
    double* sums
    double* sigmas
    double* grid  # categories × classes
    Py_ssize_t second  # where the second of two branches starts


cdef inline void get_branches(Branches* b, int64_t width, int64_t size) noexcept nogil:
    b.values = <double*> malloc((4 * width * size + 4 * width + size) * sizeof(double))
    b.codes = <int64_t*> (b.values + width * size)
    b.grid = b.values + 2 * width * size
    b.starts = <int64_t*> (b.values + 3 * width * size)
    b.lengths = b.starts + width
    b.categories = <double*> (b.lengths + width)
    b.sums = b.categories + width
    b.sigmas = b.sums + width
    b.second = width * size // 2


cdef inline double entropy(const double* values, int64_t n) noexcept nogil:
    """``InfoGainSplitCriterion._compute_entropy_dict``."""
    cdef double result = 0.0, whole = 0.0
    cdef int64_t i
    for i in range(n):
        if values[i] > 0.0:
            result -= values[i] * log2(values[i])
            whole += values[i]
    return (result + whole * log2(whole)) / whole if whole > 0.0 else 0.0


cdef inline double class_weight(Branches* b, int branch, int64_t of) noexcept nogil:
    """A branch's weight of a class, −1 where it has none."""
    cdef int64_t i
    for i in range(b.starts[branch], b.starts[branch] + b.lengths[branch]):
        if b.codes[i] == of:
            return b.values[i]
    return -1.0


cdef inline double hellinger(Trees* t, Branches* b) noexcept nogil:
    """``HellingerDistanceCriterion.compute_hellinger``: of the classes 0 and 1, and the first two branches."""
    cdef double left_positive = class_weight(b, 0, t.head.positive), left_negative = class_weight(b, 0, t.head.negative)
    cdef double right_positive = class_weight(b, 1, t.head.positive), right_negative = class_weight(b, 1, t.head.negative)
    cdef double negatives = left_negative + right_negative, positives = left_positive + right_positive, left, right
    if left_positive < 0.0 or left_negative < 0.0 or right_positive < 0.0 or right_negative < 0.0:
        return 0.0
    left = sqrt(left_negative / negatives) - sqrt(left_positive / positives)
    right = sqrt(right_negative / negatives) - sqrt(right_positive / positives)
    return sqrt(pow(left, 2.0) + pow(right, 2.0))


cdef inline double merit(Trees* t, Branches* b, double before, int64_t n) noexcept nogil:
    """``merit_of_split`` into n branches; ``before`` is the leaf's entropy."""
    cdef double whole = 0.0, result = 0.0, impurity, share
    cdef int64_t i, j, large = 0
    for i in range(n):
        b.sums[i] = total(b.values + b.starts[i], b.lengths[i], 1)
        whole += b.sums[i]
    if whole > 0.0:
        for i in range(n):
            large += 1 if b.sums[i] / whole > t.of.fraction else 0
    if large < 2:
        return -INFINITY
    if t.of.criterion == HELLINGER:
        return hellinger(t, b)
    if t.of.criterion == INFO_GAIN:
        for i in range(n):
            result += b.sums[i] * entropy(b.values + b.starts[i], b.lengths[i])
        return before - result / whole
    for i in range(n):
        impurity = 1.0
        if b.sums[i] != 0.0:
            for j in range(b.starts[i], b.starts[i] + b.lengths[i]):
                share = b.values[j] / b.sums[i]
                impurity -= share * share
        result += (b.sums[i] / whole) * impurity
    return 1.0 - result


cdef inline void spreads(Trees* t, int64_t cell, double* out) noexcept nogil:
    """The standard deviation of each cell, in the chain's order."""
    cdef Py_ssize_t i = 0
    cdef Cell* of
    while cell >= 0:
        of = cell_at(t, cell)
        out[i] = pow(of.squares / (of.weight - 1.0) if of.weight > 1.0 else 0.0, 0.5)
        cell = link_at(t, cell).next
        i += 1


cdef inline void two_branches(Branches* b, int64_t left, int64_t right) noexcept nogil:
    b.starts[0], b.lengths[0], b.starts[1], b.lengths[1] = 0, left, b.second, right


cdef inline void below_and_above(Trees* t, int64_t cell, double point, Branches* b) noexcept nogil:
    """``GaussianSplitter._class_dists_from_binary_split``; ``b.sigmas`` are the cells'."""
    cdef int64_t left = 0, right = 0, i = 0, of
    cdef double sigma, share
    cdef Cell* own
    while cell >= 0:
        own, of, sigma = cell_at(t, cell), link_at(t, cell).of, b.sigmas[i]
        i += 1
        if point < own.lowest:
            b.values[b.second + right], b.codes[b.second + right] = own.weight, of
            right += 1
        elif point >= own.highest:
            b.values[left], b.codes[left] = own.weight, of
            left += 1
        else:
            share = 0.0
            if sigma != 0.0:
                share = 0.5 * (1.0 + erf(((point - own.mean) / sigma) / SQRT_2))
            b.values[left], b.codes[left] = share * own.weight, of
            b.values[b.second + right], b.codes[b.second + right] = own.weight - b.values[left], of
            left += 1
            right += 1
        cell = link_at(t, cell).next
    two_branches(b, left, right)


cdef inline void equal_and_not(Trees* t, int64_t cell, double category, Branches* b) noexcept nogil:
    """``NominalSplitterClassif._class_dist_from_binary_split``."""
    cdef int64_t left = 0, right = 0, value, of
    cdef double other
    cdef bint others
    while cell >= 0:
        other, others, of = 0.0, False, link_at(t, cell).of
        value = link_at(t, cell).values
        while value >= 0:
            if category_at(t, value).value == category:
                b.values[left], b.codes[left] = category_at(t, value).weight, of
                left += 1
            else:
                other += category_at(t, value).weight
                others = True
            value = link_at(t, value).next
        if others:
            b.values[b.second + right], b.codes[b.second + right] = other, of
            right += 1
        cell = link_at(t, cell).next
    two_branches(b, left, right)


cdef inline int64_t by_category(Trees* t, int64_t observer, Branches* b) noexcept nogil:
    """``NominalSplitterClassif._class_dist_from_multiway_split``: the number of branches."""
    cdef Column* column = &t.columns[t.observers[observer].feature]
    cdef int64_t classes = t.head.n_classes, cell = t.observers[observer].cells, n = 0, end = 0, value, rank, i, category
    cdef double weight
    for i in range(column.size * classes):
        b.grid[i] = -1.0
    while cell >= 0:
        value = link_at(t, cell).values
        while value >= 0:
            category = <int64_t> category_at(t, value).value
            b.grid[category * classes + link_at(t, cell).of] = category_at(t, value).weight
            value = link_at(t, value).next
        cell = link_at(t, cell).next
    for rank in range(column.size):
        category = t.ranks[column.start + rank]
        b.starts[n], b.categories[n] = end, <double> category
        for i in range(classes):
            weight = b.grid[category * classes + t.order[i]]
            if weight >= 0.0:
                b.values[end], b.codes[end] = weight, t.order[i]
                end += 1
        b.lengths[n] = end - b.starts[n]
        if b.lengths[n] > 0:
            n += 1
    return n


cdef inline int64_t distribute(Trees* t, int64_t observer, int64_t kind, double point, Branches* b) noexcept nogil:
    """The distributions of a split of that kind; how many branches it has."""
    cdef int64_t first = t.observers[observer].cells
    if kind == MULTIWAY:
        return by_category(t, observer, b)
    if kind == EQUAL:
        equal_and_not(t, first, point, b)
    else:
        spreads(t, first, b.sigmas)
        below_and_above(t, first, point, b)
    return 2


cdef inline Choice suggest_point(Trees* t, int64_t observer, double before, Branches* b) noexcept nogil:
    """``GaussianSplitter.best_evaluated_split_suggestion``."""
    cdef Choice found = Choice(True, observer, LEAF, 0.0, -INFINITY)
    cdef int64_t first = t.observers[observer].cells, cell = first, i, points
    cdef double lowest = INFINITY, highest = -INFINITY, width, point, value
    while cell >= 0:
        lowest = min(lowest, cell_at(t, cell).lowest)
        highest = max(highest, cell_at(t, cell).highest)
        cell = link_at(t, cell).next
    if not lowest < INFINITY:
        return found
    spreads(t, first, b.sigmas)
    points = <int64_t> t.of.n_splits
    width = (highest - lowest) / (points + 1.0)
    for i in range(points):
        point = lowest + width * (i + 1)
        if not lowest < point < highest:
            continue
        below_and_above(t, first, point, b)
        value = merit(t, b, before, 2)
        if value > found.merit:
            found.merit, found.kind, found.point = value, THRESHOLDED, point
    return found


cdef inline Choice suggest_category(Trees* t, int64_t observer, double before, Branches* b) noexcept nogil:
    """``NominalSplitterClassif.best_evaluated_split_suggestion``.

    Of binary splits of equal merit river takes the first in a set's order; here it is the smallest category.
    """
    cdef Choice found = Choice(True, observer, LEAF, 0.0, -INFINITY)
    cdef int64_t n = distribute(t, observer, MULTIWAY, 0.0, b), i
    cdef double category, value
    if t.of.binary == 0.0:
        found.kind = MULTIWAY
        found.merit = merit(t, b, before, n)
    for i in range(n):
        category = b.categories[i]
        distribute(t, observer, EQUAL, category, b)
        value = merit(t, b, before, 2)
        if value > found.merit:
            found.merit, found.kind, found.point = value, EQUAL, category
    return found


cdef inline int64_t widest(Trees* t, int64_t leaf) noexcept nogil:
    """The most categories that a nominal feature of the leaf may have, at least two."""
    cdef int64_t result = 2, observer = leaf_at(t, leaf).first
    while observer >= 0:
        if t.observers[observer].categorical == 1:
            result = max(result, t.columns[t.observers[observer].feature].size)
        observer = t.observers[observer].next
    return result


cdef inline bint take_choice(Choice* best, double* second, int64_t suggestions, Choice found) noexcept nogil:
    """Whether a suggestion is the best so far: of equals the last, as in a stable sort."""
    if suggestions == 0 or found.merit >= best.merit:
        second[0] = best.merit
        best[0] = found
        if found.kind == LEAF:
            best.observer = -1
        return True
    second[0] = max(found.merit, second[0])
    return False


cdef inline Choice decide(Trees* t, int64_t leaf, Branches* b) noexcept nogil:
    """``_attempt_to_split``."""
    cdef Choice best = Choice(False, -1, LEAF, 0.0, -INFINITY), found
    cdef const double* stats = stats_at(t, leaf)
    cdef int64_t n = leaf_at(t, leaf).count, known = 0, i, observer
    cdef int64_t suggestions = 1 if t.of.preprune != 0.0 else 0
    cdef double weight, highest, before, second = -INFINITY, span, bound
    for i in range(n):
        known += 1 if stats[i] != 0.0 else 0
    if known < 2:
        return best
    weight = weight_of(t, leaf)
    highest = stats[0]
    for i in range(1, n):
        highest = max(stats[i], highest)
    if highest != 0.0 and highest / weight > t.of.share:
        best.split = True
        return best
    before = entropy(stats, n)
    observer = leaf_at(t, leaf).first
    while observer >= 0:
        if t.observers[observer].categorical == 1:
            found = suggest_category(t, observer, before, b)
        else:
            found = suggest_point(t, observer, before, b)
        take_choice(&best, &second, suggestions, found)
        suggestions += 1
        observer = t.observers[observer].next
    if suggestions < 2:
        best.split = suggestions > 0
        return best
    span = 1.0 if t.of.criterion == GINI else log2(<double> max(n, 2))
    bound = sqrt((span * span * log(1.0 / t.of.delta)) / (2.0 * weight))
    best.split = best.merit - second > bound or bound < t.of.tau
    return best


cdef inline int64_t divide(Trees* t, int64_t node, bint fresh, int64_t* n) noexcept nogil:
    """Split a leaf's node where that is due, or a fresh one in its place: the branch and n leaves; or an ``Outcome``."""
    cdef Branches b
    cdef Choice choice
    cdef int64_t branch, child, leaf, i, j
    get_branches(&b, widest(t, t.nodes[node].leaf), t.size)
    choice = decide(t, t.nodes[node].leaf, &b)
    n[0] = 0
    if not choice.split or choice.observer < 0:
        free(b.values)
        return NULL_SPLIT if choice.split else STAYS
    n[0] = distribute(t, choice.observer, choice.kind, choice.point, &b)
    branch = split_node(t, node, fresh, choice.observer, choice.kind, choice.point, n[0], b.categories)
    child = t.nodes[branch].left
    for i in range(n[0]):
        leaf = t.nodes[child].leaf
        for j in range(b.lengths[i]):
            stats_at(t, leaf)[j] = b.values[b.starts[i] + j]
            classes_at(t, leaf)[j] = b.codes[b.starts[i] + j]
        leaf_at(t, leaf).count = b.lengths[i]
        hits_at(t, leaf).attempted = weight_of(t, leaf)
        child = t.nodes[child].next
    free(b.values)
    return branch
