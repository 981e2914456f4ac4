# Leaves: what they predict and learn, as in river's htc_nodes and splitters; those of regression trees in targets.pxd.

from libc.math cimport isnan, log
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from explain_core.engine.bayes cimport bayes, majority, weight_of
from explain_core.engine.layout cimport *
from explain_core.engine.mersenne cimport sample
from explain_core.engine.targets cimport add_target, learn_target, observe_number, predict_target


cdef inline void clear_leaf(Trees* t, int64_t leaf) noexcept nogil:
    """Make all that a leaf has learnt of its target zero."""
    memset(hits_at(t, leaf), 0, t.doubles_width * sizeof(double))
    memset(stats_at(t, leaf), 0, t.size * sizeof(double))
    memset(classes_at(t, leaf), 0, 2 * t.size * sizeof(int64_t))


cdef inline int64_t new_leaf(Trees* t) noexcept nogil:
    """An empty, active leaf."""
    cdef int64_t leaf = take(t, LEAF_POOL)
    cdef Leaf* own = leaf_at(t, leaf)
    memset(own, 0, t.leaf_width * sizeof(int64_t))
    own.active, own.first, own.last = 1, -1, -1
    clear_leaf(t, leaf)
    return leaf


cdef inline void forget(Trees* t, int64_t leaf) noexcept nogil:
    """Give a leaf's observers back."""
    cdef Leaf* own = leaf_at(t, leaf)
    cdef int64_t observer = own.first, cell, value, after
    while observer >= 0:
        cell = t.observers[observer].cells
        while cell >= 0:
            value = link_at(t, cell).values
            if value >= 0:  # it comes first, what follows it later
                link_at(t, cell).values = link_at(t, value).next
                link_at(t, value).next = cell
                cell = value
                continue
            after = link_at(t, cell).next
            memset(cell_at(t, cell), 0, t.cell_width * sizeof(double))
            give(t, CELL_POOL, cell)
            cell = after
        after = t.observers[observer].next
        give(t, OBSERVER_POOL, observer)
        observer = after
    own.first, own.last, own.nominals = -1, -1, 0


cdef inline void drop_leaf(Trees* t, int64_t leaf) noexcept nogil:
    """Give a leaf back."""
    forget(t, leaf)
    clear_leaf(t, leaf)
    if t.model_width > 0:
        memset(t.models + leaf * t.model_width, 0, t.model_width * sizeof(double))
    give(t, LEAF_POOL, leaf)


cdef inline int64_t first_highest(const double* votes, int64_t n) noexcept nogil:
    """``max(votes, key=votes.get)``."""
    cdef int64_t best = 0, i
    for i in range(1, n):
        if votes[i] > votes[best]:
            best = i
    return best


cdef inline bint uses_bayes(Trees* t, int64_t leaf) noexcept nogil:
    """Whether the leaf predicts by naive Bayes."""
    if leaf_at(t, leaf).active == 0 or t.of.manner == MAJORITY:
        return False
    if t.of.manner == BETTER:
        return hits_at(t, leaf).bayes >= hits_at(t, leaf).majority
    return weight_of(t, leaf) >= t.of.nb_threshold


cdef inline int64_t predict_leaf(Trees* t, int64_t leaf, const double* x, double* votes) noexcept nogil:
    """The leaf's ``prediction``, in its order of classes, or one number; how many there are."""
    if t.regression:
        votes[0] = predict_target(t, leaf, x)
        return 1
    if uses_bayes(t, leaf):
        return bayes(t, leaf, x, votes)
    majority(t, leaf, votes)
    return leaf_at(t, leaf).count


cdef inline int64_t new_cell(Trees* t, int64_t of) noexcept nogil:
    """An empty cell of a class."""
    cdef int64_t cell = take(t, CELL_POOL)
    memset(cell_at(t, cell), 0, t.cell_width * sizeof(double))
    link_at(t, cell).of, link_at(t, cell).next, link_at(t, cell).values = of, -1, -1
    return cell


cdef inline int64_t cell_of(Trees* t, int64_t observer, int64_t of, bint* new) noexcept nogil:
    """The observer's cell of a class, a new one at the end where there is none."""
    cdef int64_t cell = t.observers[observer].cells, last = -1
    while cell >= 0 and link_at(t, cell).of != of:
        last = cell
        cell = link_at(t, cell).next
    new[0] = cell < 0
    if cell >= 0:
        return cell
    cell = new_cell(t, of)
    if last < 0:
        t.observers[observer].cells = cell
    else:
        link_at(t, last).next = cell
    return cell


cdef inline void enter_classes(Trees* t, int64_t leaf, const double* x) noexcept nogil:
    """Enter the leaf's classes into its nominal observers, as river's naive Bayes does by asking a ``defaultdict``."""
    cdef Leaf* own = leaf_at(t, leaf)
    cdef int64_t i, observer
    cdef bint new
    if own.nominals == 0 or weight_of(t, leaf) == 0.0:
        return
    for i in range(own.count):
        if stats_at(t, leaf)[i] <= 0.0:
            continue
        observer = own.first
        while observer >= 0:
            if t.observers[observer].categorical == 1 and not isnan(x[t.observers[observer].feature]):
                cell_of(t, observer, classes_at(t, leaf)[i], &new)
            observer = t.observers[observer].next


cdef inline void observe(Trees* t, int64_t observer, double value, int64_t y, double w) noexcept nogil:
    """The observer's ``update``."""
    cdef bint new
    cdef int64_t cell = cell_of(t, observer, y, &new), category, last
    cdef Cell* of
    if t.observers[observer].categorical == 1:
        category, last = link_at(t, cell).values, -1
        while category >= 0 and category_at(t, category).value != value:
            last = category
            category = link_at(t, category).next
        if category < 0:
            category = new_cell(t, y)
            category_at(t, category).value = value
            if last < 0:
                link_at(t, cell).values = category
            else:
                link_at(t, last).next = category
        category_at(t, category).weight += w
        return
    of = cell_at(t, cell)
    if new or value < of.lowest:
        of.lowest = value
    if new or value > of.highest:
        of.highest = value
    add_target(&of.weight, &of.mean, &of.squares, value, w)
    if of.weight > 1.0 and of.squares / (of.weight - 1.0) > 0.0:
        of.half_log = 0.5 * log(of.squares / (of.weight - 1.0))


cdef inline void draw_features(Trees* t, int64_t leaf, const double* x) noexcept nogil:
    """``BaseRandomLeaf._sample_features`` of the record's features, into the leaf."""
    cdef int64_t* drawn = drawn_at(t, leaf)
    cdef int64_t n = 0, k = t.head.n_features, copied = 21, size = 1, i
    cdef int64_t* present = <int64_t*> malloc((t.n_columns + k) * sizeof(int64_t))
    cdef int64_t* chosen = present + t.n_columns
    for i in range(t.n_columns):
        if not isnan(x[t.columns[i].by_name]):
            present[n] = t.columns[i].by_name
            n += 1
    if n < k:
        for i in range(n):
            drawn[i] = present[i]
        leaf_at(t, leaf).sampled = n
    else:
        if k > 5:
            while size < 3 * k:  # 4 to the power of ⌈log₄ 3k⌉
                size *= 4
            copied += size
        sample(n, k, copied, chosen, t.words, &t.head.position)
        for i in range(k):
            drawn[i] = present[chosen[i]]
        leaf_at(t, leaf).sampled = k
    free(present)


cdef inline void update_observers(Trees* t, int64_t leaf, const double* x, double y, double w) noexcept nogil:
    """``HTLeaf.update_splitters`` with all features of the record, or with those that the leaf samples."""
    cdef Leaf* own = leaf_at(t, leaf)
    cdef bint drawn = t.head.n_features > 0
    cdef int64_t expected = own.first, i, column, observer
    if drawn and own.sampled == 0:
        draw_features(t, leaf, x)
    for i in range(own.sampled if drawn else t.n_columns):
        column = drawn_at(t, leaf)[i] if drawn else i
        if isnan(x[column]):
            continue
        observer = expected
        if observer < 0 or t.observers[observer].feature != column:
            observer = own.first
            while observer >= 0 and t.observers[observer].feature != column:
                observer = t.observers[observer].next
        if observer < 0:
            observer = take(t, OBSERVER_POOL)
            t.observers[observer].feature = column
            t.observers[observer].categorical = t.columns[column].nominal
            t.observers[observer].cells = -1
            t.observers[observer].next = -1
            if own.last < 0:
                own.first = observer
            else:
                t.observers[own.last].next = observer
            own.last = observer
            own.nominals += t.columns[column].nominal
        expected = t.observers[observer].next
        if t.regression:
            observe_number(t, observer, x[column], y, w)
        else:
            observe(t, observer, x[column], <int64_t> y, w)


cdef inline void learn_class(
    Trees* t, int64_t leaf, const double* x, int64_t y, double w, bint whole, bint predicted
) noexcept nogil:
    """The ``learn_one`` of a classification tree's leaf but for its observers; see ``learn_leaf``."""
    cdef Leaf* own = leaf_at(t, leaf)
    cdef int64_t* classes = classes_at(t, leaf)
    cdef int64_t n = own.count, voted, place = 0
    if own.active == 1 and t.of.compares != 0.0:
        if n == 0:
            hits_at(t, leaf).majority += w
        else:
            majority(t, leaf, t.votes)
            if classes[first_highest(t.votes, n)] == y:
                hits_at(t, leaf).majority += w
        voted = bayes(t, leaf, x, t.votes)
        if voted > 0 and classes[first_highest(t.votes, voted)] == y:
            hits_at(t, leaf).bayes += w
        enter_classes(t, leaf, x)
    elif predicted and uses_bayes(t, leaf):
        enter_classes(t, leaf, x)
    while place < n and classes[place] != y:
        place += 1
    if place == n:
        classes[n] = y
        classes[t.size + n] = whole
        own.count += 1
    stats_at(t, leaf)[place] += w


cdef inline void learn_leaf(
    Trees* t, int64_t leaf, const double* x, double y, double w, bint whole, bint predicted
) noexcept nogil:
    """The leaf's ``learn_one`` of a class's code or, in a regression, a number.

    ``whole`` says that the weight is an int, ``predicted`` that the record was predicted before.
    """
    if t.regression:
        learn_target(t, leaf, x, y, w)
    else:
        learn_class(t, leaf, x, <int64_t> y, w, whole, predicted)
    if leaf_at(t, leaf).active == 1:
        update_observers(t, leaf, x, y, w)
