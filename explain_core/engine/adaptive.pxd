# HoeffdingAdaptiveTreeClassifier and HoeffdingAdaptiveTreeRegressor.
#
# A branch may have an alternate, which is always a leaf: where it splits, its split takes the branch's place. The branch and what is
# below still learn the record then, as in river, before they are given back.

from libc.math cimport erf, erfc, fabs, isnan, log, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from explain_core.engine.adwin cimport detect
from explain_core.engine.arithmetic cimport total
from explain_core.engine.bayes cimport weight_of
from explain_core.engine.hoeffding cimport divide_leaf
from explain_core.engine.layout cimport *
from explain_core.engine.leaves cimport first_highest, learn_leaf, predict_leaf
from explain_core.engine.mersenne cimport poisson
from explain_core.engine.splits cimport NULL_SPLIT, SQRT_2, STAYS
from explain_core.engine.target_splits cimport variance
from explain_core.engine.walks cimport (
    activate, deactivate, leaf_node, next_node, otherwise, release, toward,
)

cdef enum:  # Counter
    MADE
    SWITCHED
    PRUNED

cdef enum:  # Learnt: what came of a leaf's learning
    NOTHING
    ACTIVATED  # leaves that were inactive
    REPLACED  # a split was put in its place


cdef inline void scale_votes(Trees* t, int64_t node, int64_t n, double* votes) noexcept nogil:
    """Make the votes of a leaf's classes greater the less it errs."""
    cdef double error = errors_at(t, node).mean
    cdef double factor = total(votes, n, 1) * error * error, scale
    cdef int64_t i
    if factor != 0.0 and not isnan(factor):
        scale = 1.0 / factor
        for i in range(n):
            votes[i] *= scale


cdef inline int64_t vote(Trees* t, int64_t node, const double* x, double* votes) noexcept nogil:
    """``AdaLeafClassifier.prediction``, or ``AdaLeafRegressor.prediction``; how many votes there are."""
    cdef int64_t n = predict_leaf(t, t.nodes[node].leaf, x, votes)
    if not t.regression:
        scale_votes(t, node, n, votes)
    return n


cdef inline double misses(Trees* t, int64_t node, const double* x, double y) noexcept nogil:
    """1 where the leaf predicts another class, else 0; of a number the absolute error."""
    cdef int64_t n = vote(t, node, x, t.votes)
    if t.regression:
        return fabs(y - t.votes[0])
    return 0.0 if n > 0 and classes_at(t, t.nodes[node].leaf)[first_highest(t.votes, n)] == <int64_t> y else 1.0


cdef inline bint worse(Trees* t, int64_t node, double wrong) noexcept nogil:
    """Whether the node's error has changed, and not for the better."""
    cdef Errors* own = errors_at(t, node)
    cdef double before = own.mean
    cdef bint change = detect(t, node, &t.detectors[0], wrong)
    own.count += 1.0
    own.mean += (1.0 / own.count) * (wrong - own.mean)
    if t.regression:
        own.squares += (wrong - before) * (wrong - own.mean)
    if change and before > own.mean:
        memset(own, 0, t.error_width * sizeof(double))
        return False
    return change


cdef inline void replace(Trees* t, int64_t parent, int64_t occupant, int64_t node) noexcept nogil:
    """Put a node in the place of another one below the parent, or at the root."""
    cdef int64_t before
    if parent < 0:
        t.trees[0].root = node
        return
    t.nodes[node].next = t.nodes[occupant].next
    t.splits[node].key = t.splits[occupant].key
    t.nodes[occupant].next = -1
    if t.nodes[parent].right == occupant:
        t.nodes[parent].right = node
    if t.nodes[parent].left == occupant:
        t.nodes[parent].left = node
        return
    before = t.nodes[parent].left
    while t.nodes[before].next != occupant:
        before = t.nodes[before].next
    t.nodes[before].next = node


cdef inline int64_t leaves_used(Trees* t) noexcept nogil:
    return t.head.pools[LEAF_POOL].used - t.head.pools[LEAF_POOL].free


cdef inline int learn_node(
    Trees* t, int64_t node, int64_t parent, int64_t occupant, const double* x, double y, double w
) noexcept nogil:
    """The ``learn_one`` of a leaf at the occupant's place; a ``Learnt``."""
    cdef int64_t leaf = t.nodes[node].leaf, k, n, branch
    cdef double seen
    if t.of.bootstrap != 0.0:
        k = poisson(t.of.rate, t.words, &t.head.position)
        if k > 0:
            w *= k
    worse(t, node, misses(t, node, x, y))
    learn_leaf(t, leaf, x, y, w, False, False)
    seen = weight_of(t, leaf)
    if seen - hits_at(t, leaf).attempted < t.of.grace:
        return NOTHING
    if t.nodes[node].depth >= t.of.depth_limit:
        deactivate(t, 0, leaf)
        return NOTHING
    if leaf_at(t, leaf).active == 0 or leaves_used(t) >= t.of.leaf_limit:
        return NOTHING
    hits_at(t, leaf).attempted = seen
    branch = divide_leaf(t, node, True, &n)
    if branch == STAYS:
        return NOTHING
    if branch == NULL_SPLIT:
        deactivate(t, 0, leaf)
    else:
        replace(t, parent, occupant, branch)
    activate(t, 0, t.trees[0].root)
    return ACTIVATED if branch == NULL_SPLIT else REPLACED


cdef inline void prune(Trees* t, int64_t branch) noexcept nogil:
    """``kill_tree_children``: give the alternates below back."""
    cdef int64_t child = t.nodes[branch].left
    while child >= 0:
        if t.nodes[child].kind != LEAF:
            if t.alternates[child] >= 0:
                release(t, t.alternates[child])
                t.alternates[child] = -1
                t.counters[PRUNED] += 1
            prune(t, child)
        child = t.nodes[child].next


cdef inline int compare(Trees* t, int64_t node, int64_t alternate, bint by_erfc) noexcept nogil:
    """1 where the alternate is better, −1 where it is worse, 0 where nothing can be said yet."""
    cdef Errors* mine = errors_at(t, node)
    cdef Errors* its = errors_at(t, alternate)
    cdef double bound, spread, z, p
    if its.count <= t.of.drift_window or mine.count <= t.of.drift_window:
        return 0
    if not t.regression:
        bound = sqrt(2.0 * mine.mean * (1.0 - mine.mean) * log(2.0 / t.of.switch_at) * (1.0 / its.count + 1.0 / mine.count))
        if bound < mine.mean - its.mean:
            return 1
        return -1 if bound < its.mean - mine.mean else 0
    # A z-test of the mean absolute errors.
    spread = sqrt(variance(its.count, its.squares) / its.count + variance(mine.count, mine.squares) / mine.count)
    z = fabs((its.mean - mine.mean) / spread)
    p = 2.0 * (0.5 * erfc(z / SQRT_2) if by_erfc else 0.5 * (1.0 + erf(-z / SQRT_2)))
    if not p <= t.of.switch_at:
        return 0
    return 1 if its.mean < mine.mean else -1


cdef inline int64_t learn_adaptive(Trees* t, const double* x, double y, double w, bint by_erfc) noexcept nogil:
    """``learn_one``; minus the number of leaves that learn where there may be no room for it, and then nothing has changed."""
    cdef int64_t node = t.trees[0].root, length = 1, end, parent, alternate, child, occupant, times, i, n_orphans = 0
    cdef int64_t* orphans
    cdef int changed, better
    cdef double wrong
    while node >= 0 and t.nodes[node].kind != LEAF:
        node = next_node(t, node, x[t.nodes[node].column], &times)
        length += 1
    if short_of_rows(t, 2 * length + 1):
        return -2 * length - 1
    get_scratch(t)
    end = node
    if t.trees[0].root < 0:
        t.trees[0].root = leaf_node(t, 0)
    orphans = <int64_t*> malloc((2 * length + 2) * sizeof(int64_t))
    node, parent, changed, wrong = t.trees[0].root, -1, REPLACED, 0.0
    while t.nodes[node].kind != LEAF:
        if changed != NOTHING:  # leaves may be active again, and predict otherwise
            wrong = misses(t, end, x, y)
            changed = NOTHING
        alternate = t.alternates[node]
        # A classification tree begins its alternate anew; a regression tree goes on with the one it has.
        if worse(t, node, wrong) and (not t.regression or alternate < 0):
            memset(errors_at(t, node), 0, t.error_width * sizeof(double))
            if alternate >= 0:
                release(t, alternate)
            alternate = leaf_node(t, t.nodes[node].depth)
            t.alternates[node] = alternate
            t.counters[MADE] += 1
        elif alternate >= 0:
            better = compare(t, node, alternate, by_erfc)
            if better > 0:
                prune(t, node)
                t.alternates[node] = -1
                replace(t, parent, node, alternate)
                orphans[n_orphans] = node
                n_orphans += 1
                t.counters[SWITCHED] += 1
                if parent >= 0:  # at the root river's alternate learns still
                    alternate = -1
            elif better < 0:
                release(t, alternate)
                t.alternates[node] = -1
                alternate = -1
                t.counters[PRUNED] += 1
        if alternate >= 0:
            occupant = t.trees[0].root if parent < 0 else node
            changed = learn_node(t, alternate, parent, occupant, x, y, w)
            if changed == REPLACED:
                orphans[n_orphans] = occupant
                n_orphans += 1
        child = toward(t, node, x[t.nodes[node].column])
        if child < 0:
            child = otherwise(t, node, x[t.nodes[node].column], leaves_used(t) < t.of.leaf_limit, &times)
        parent, node = node, child
    if learn_node(t, node, parent, node, x, y, w) == REPLACED:
        orphans[n_orphans] = node
        n_orphans += 1
    for i in range(n_orphans):
        release(t, orphans[i])
    free(orphans)
    give_scratch(t)
    return 0


cdef inline void add_leaf(Trees* t, int64_t node, const double* x, double* out) noexcept nogil:
    """Add a leaf's votes, by code."""
    cdef int64_t n = vote(t, node, x, t.votes), i
    for i in range(n):
        out[classes_at(t, t.nodes[node].leaf)[i]] += t.votes[i]


cdef inline void share(Trees* t, int64_t reached, double* out) noexcept nogil:
    """The prediction that the votes of the leaves that a walk reached add up to."""
    cdef double whole, scale
    cdef Py_ssize_t i
    if t.regression:
        out[0] /= reached
        return
    for i in range(t.n_order):
        t.parts[i] = out[t.order[i]]
    whole = total(t.parts, t.n_order, 1)
    if whole != 0.0 and not isnan(whole):
        scale = 1.0 / whole
        for i in range(t.n_order):
            out[t.order[i]] *= scale


cdef inline void adaptive_probabilities(Trees* t, const double* x, double* out) noexcept nogil:
    """``predict_proba_one``, in the order of the codes; or ``predict_one``, the mean of the leaves'."""
    cdef int64_t node = t.trees[0].root, times = 1, reached = 1, i
    memset(out, 0, t.size * sizeof(double))
    if node < 0:
        return
    while t.nodes[node].kind != LEAF:
        if t.alternates[node] >= 0:
            for i in range(times):
                add_leaf(t, t.alternates[node], x, out)
                reached += 1
        node = next_node(t, node, x[t.nodes[node].column], &times)
    add_leaf(t, node, x, out)
    share(t, reached, out)
