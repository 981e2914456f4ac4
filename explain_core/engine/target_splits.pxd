# Where a leaf of a regression tree would split: the reduction of variance, and river's split suggestions.

from libc.math cimport INFINITY, log, pow, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from explain_core.engine.layout cimport *
from explain_core.engine.splits cimport NULL_SPLIT, STAYS, Choice, take_choice
from explain_core.engine.targets cimport endow_target
from explain_core.engine.walks cimport split_node

cdef enum:  # Stage: of a point on the way through a search tree
    DOWN  # it is reached
    BETWEEN  # its left side is done
    AFTER  # its right side is done


cdef struct Sides:  # the targets of a split's two branches
    Variance left
    Variance right


cdef inline Variance plus(Variance a, Variance b) noexcept nogil:
    """``Var.__iadd__``."""
    cdef double whole = a.n + b.n
    return Variance(
        whole,
        (a.n * a.mean + b.n * b.mean) / whole,
        a.squares + b.squares + pow(a.mean - b.mean, 2.0) * a.n * b.n / whole,
    )


cdef inline Variance minus(Variance a, Variance b) noexcept nogil:
    """``Var.__isub__``."""
    cdef double rest = a.n - b.n, centre = 0.0
    if rest > 0.0:
        centre = (a.n * a.mean - b.n * b.mean) / rest
    else:
        rest = 0.0
    return Variance(rest, centre, a.squares - b.squares - pow(centre - b.mean, 2.0) * rest * b.n / (rest + b.n))


cdef inline double variance(double n, double squares) noexcept nogil:
    """``Var.get``."""
    return squares / (n - 1.0) if n > 1.0 else 0.0


cdef inline Variance targets_of(Trees* t, int64_t leaf) noexcept nogil:
    """The running variance of a leaf's targets."""
    return Variance(stats_at(t, leaf)[0], target_at(t, leaf).mean, target_at(t, leaf).squares)


cdef inline Variance targets_at(Trees* t, int64_t cell) noexcept nogil:
    """The running variance of a point's targets."""
    cdef Point* of = point_at(t, cell)
    return Variance(of.weight, of.mean, of.squares)


cdef inline double split_in_two(Trees* t, int64_t leaf, Variance left, Sides* sides) noexcept nogil:
    """The ``merit_of_split`` into these targets and the leaf's others."""
    cdef Variance whole = targets_of(t, leaf), right = minus(whole, left)
    cdef double result
    sides.left, sides.right = left, right
    if left.n < t.of.least or right.n < t.of.least:
        return 0.0
    result = variance(whole.n, whole.squares)
    result -= left.n / whole.n * variance(left.n, left.squares)
    result -= right.n / whole.n * variance(right.n, right.squares)
    return result


cdef inline int64_t leftmost(Trees* t, int64_t cell) noexcept nogil:
    """The lowest point of a search tree."""
    while fork_at(t, cell).below >= 0:
        cell = fork_at(t, cell).below
    return cell


cdef inline int64_t next_point(Trees* t, int64_t cell, Variance* passed) noexcept nogil:
    """The next higher point of a search tree, −1 for none; ``passed``, if any: the targets to the left of those below that point."""
    cdef int64_t before
    if fork_at(t, cell).above >= 0:
        if passed != NULL:
            passed[0] = plus(passed[0], targets_at(t, cell))
        return leftmost(t, fork_at(t, cell).above)
    before, cell = cell, fork_at(t, cell).parent
    while cell >= 0 and fork_at(t, cell).above == before:
        if passed != NULL:
            passed[0] = minus(passed[0], targets_at(t, cell))
        before, cell = cell, fork_at(t, cell).parent
    return cell


cdef inline Choice suggest_threshold(Trees* t, int64_t leaf, int64_t observer, Sides* sides) noexcept nogil:
    """``EBSTSplitter.best_evaluated_split_suggestion``."""
    cdef Choice best = Choice(True, observer, LEAF, 0.0, -INFINITY)
    cdef Sides found
    cdef Variance passed = Variance(0.0, 0.0, 0.0)  # what lies to the left of the points now gone through
    cdef int64_t cell = t.observers[observer].cells
    cdef double value
    if cell < 0:
        return best
    cell = leftmost(t, cell)
    while cell >= 0:
        value = split_in_two(t, leaf, plus(targets_at(t, cell), passed), &found)
        if value > best.merit:
            best.merit, best.kind, best.point = value, THRESHOLDED, point_at(t, cell).point
            sides[0] = found
        cell = next_point(t, cell, &passed)
    return best


cdef inline Choice suggest_slot(Trees* t, int64_t leaf, int64_t observer, Sides* sides) noexcept nogil:
    """``QOSplitter.best_evaluated_split_suggestion``.

    River's left side is that of all slots in the end, whichever split is best.
    """
    cdef Choice best = Choice(True, observer, LEAF, 0.0, -INFINITY)
    cdef Sides found
    cdef Variance passed = Variance(0.0, 0.0, 0.0)
    cdef int64_t cell = leftmost(t, t.observers[observer].cells)
    cdef double value, place = 0.0
    cdef bint first = True
    while cell >= 0:
        passed = plus(passed, targets_at(t, cell))
        if not first:
            value = split_in_two(t, leaf, passed, &found)
            if value > best.merit:
                best.merit, best.kind, best.point = value, THRESHOLDED, (place + point_at(t, cell).place) / 2.0
                sides[0] = found
        first, place = False, point_at(t, cell).place
        cell = next_point(t, cell, NULL)
    sides.left = passed
    return best


cdef inline int64_t in_order(Trees* t, int64_t observer, int64_t* order) noexcept nogil:
    """The points of a nominal feature in the order of its categories, and how many there are."""
    cdef Column* column = &t.columns[t.observers[observer].feature]
    cdef int64_t* places = <int64_t*> malloc(column.size * sizeof(int64_t))
    cdef int64_t cell = t.observers[observer].cells, n = 0, i
    for i in range(column.size):
        places[i] = -1
    while cell >= 0:
        places[<int64_t> point_at(t, cell).point] = cell
        cell = fork_at(t, cell).above
    for i in range(column.size):
        cell = places[t.ranks[column.start + i]]
        if cell >= 0:
            order[n] = cell
            n += 1
    free(places)
    return n


cdef inline Choice suggest_target_category(
    Trees* t, int64_t leaf, int64_t observer, int64_t* order, Sides* sides
) noexcept nogil:
    """``NominalSplitterReg.best_evaluated_split_suggestion``; the points by category in ``order``."""
    cdef Choice best = Choice(True, observer, LEAF, 0.0, -INFINITY)
    cdef Variance whole = targets_of(t, leaf), own
    cdef Sides found
    cdef int64_t n = in_order(t, observer, order), i
    cdef double value
    if t.of.binary == 0.0 and n > 2:
        best.kind, best.merit = MULTIWAY, variance(whole.n, whole.squares)
        for i in range(n):
            own = targets_at(t, order[i])
            best.merit -= own.n / whole.n * variance(own.n, own.squares)
        for i in range(n):
            if point_at(t, order[i]).weight < t.of.least:
                best.merit = 0.0
    for i in range(n):
        value = split_in_two(t, leaf, targets_at(t, order[i]), &found)
        if value > best.merit:
            best.merit, best.kind, best.point = value, EQUAL, point_at(t, order[i]).point
            sides[0] = found
    return best


cdef inline void drop_bad(Trees* t, int64_t leaf, int64_t observer, double vr, double limit) noexcept nogil:
    """``EBSTSplitter.remove_bad_splits``: of points below which all are bad, those whose merit by ``vr`` is below the limit."""
    cdef Variance passed = Variance(0.0, 0.0, 0.0), own
    cdef Sides sides
    cdef int64_t cell = t.observers[observer].cells, parent
    cdef int stage = DOWN
    cdef bint bad = False
    while cell >= 0:
        if stage == DOWN:
            if fork_at(t, cell).below >= 0:
                cell = fork_at(t, cell).below
                continue
            bad, stage = True, BETWEEN
        own = targets_at(t, cell)
        if stage == BETWEEN and bad and fork_at(t, cell).above >= 0:
            passed = plus(passed, own)
            cell, stage = fork_at(t, cell).above, DOWN
            continue
        if stage == AFTER:
            passed = minus(passed, own)
        parent = fork_at(t, cell).parent
        stage = BETWEEN if parent >= 0 and fork_at(t, parent).below == cell else AFTER
        if bad:
            bad = split_in_two(t, leaf, plus(own, passed), &sides) / vr < limit
            if bad:
                if parent < 0:
                    t.observers[observer].cells = -1
                elif stage == BETWEEN:
                    fork_at(t, parent).below = -1
                else:
                    fork_at(t, parent).above = -1
                memset(point_at(t, cell), 0, t.cell_width * sizeof(double))
                give(t, CELL_POOL, cell)
        cell = parent


cdef inline Choice decide_target(Trees* t, int64_t leaf, int64_t* order, Sides* sides) noexcept nogil:
    """``_attempt_to_split``. Where there is no split, bad points are dropped."""
    cdef Choice best = Choice(False, -1, LEAF, 0.0, -INFINITY), found
    cdef Sides own
    cdef int64_t suggestions = 1 if t.of.preprune != 0.0 else 0, observer = leaf_at(t, leaf).first
    cdef bint slots = t.of.radius > 0.0
    cdef double second = -INFINITY, bound, limit
    while observer >= 0:
        if t.observers[observer].categorical == 1:
            found = suggest_target_category(t, leaf, observer, order, &own)
        elif slots:
            found = suggest_slot(t, leaf, observer, &own)
        else:
            found = suggest_threshold(t, leaf, observer, &own)
        if take_choice(&best, &second, suggestions, found):
            sides[0] = own
        suggestions += 1
        observer = t.observers[observer].next
    best.split = suggestions > 0
    if suggestions < 2:
        return best
    bound = sqrt(log(1.0 / t.of.delta) / (2.0 * stats_at(t, leaf)[0]))
    if best.merit > 0.0 and (second / best.merit < 1.0 - bound or bound < t.of.tau):
        return best
    if best.merit > 0.0 and second > 0.0 and not slots:
        limit = second / best.merit - 2.0 * bound
        observer = leaf_at(t, leaf).first
        while observer >= 0:
            if t.observers[observer].categorical == 0:
                drop_bad(t, leaf, observer, best.merit, limit)
            observer = t.observers[observer].next
    best.split = False
    return best


cdef inline int64_t divide_target(Trees* t, int64_t node, bint fresh, int64_t* n) noexcept nogil:
    """See ``divide`` in splits.pxd: of a regression tree."""
    cdef int64_t leaf = t.nodes[node].leaf, width = 2, branch, child, i
    cdef int64_t* order
    cdef double* categories
    cdef Sides sides
    cdef Choice choice
    memset(&sides, 0, sizeof(Sides))
    for i in range(t.n_columns):
        width = max(width, t.columns[i].size)
    order = <int64_t*> malloc(2 * width * sizeof(int64_t))
    categories = <double*> (order + width)
    choice = decide_target(t, leaf, order, &sides)
    n[0] = 0
    if not choice.split or choice.observer < 0:
        free(order)
        return NULL_SPLIT if choice.split else STAYS
    n[0] = 2
    if choice.kind == MULTIWAY:
        n[0] = in_order(t, choice.observer, order)
        for i in range(n[0]):
            categories[i] = point_at(t, order[i]).point
    branch = split_node(t, node, fresh, choice.observer, choice.kind, choice.point, n[0], categories)
    child = t.nodes[branch].left
    for i in range(n[0]):
        if choice.kind == MULTIWAY:
            endow_target(t, t.nodes[child].leaf, targets_at(t, order[i]), leaf)
        else:
            endow_target(t, t.nodes[child].leaf, sides.left if i == 0 else sides.right, leaf)
        child = t.nodes[child].next
    free(order)
    return branch
