# Hoeffding trees: HoeffdingTreeClassifier and HoeffdingTreeRegressor, also those of a forest.

from libc.stdint cimport int64_t
from libc.string cimport memset

from explain_core.engine.bayes cimport weight_of
from explain_core.engine.layout cimport *
from explain_core.engine.leaves cimport drop_leaf, learn_leaf, predict_leaf
from explain_core.engine.splits cimport NULL_SPLIT, STAYS, divide
from explain_core.engine.target_splits cimport divide_target
from explain_core.engine.walks cimport activate, deactivate, descend, leaf_node, otherwise, toward


cdef inline void tree_votes(Trees* t, int64_t tree, const double* x, double* out) noexcept nogil:
    """A tree's probability of each class, by code, or its number; zeros where it has learnt nothing."""
    cdef int64_t root = t.trees[tree].root, leaf, n, i
    memset(out, 0, t.size * sizeof(double))
    if root < 0:
        return
    leaf = t.nodes[descend(t, root, x)].leaf
    n = predict_leaf(t, leaf, x, t.votes)
    for i in range(n):
        out[classes_at(t, leaf)[i]] = t.votes[i]


cdef inline int64_t divide_leaf(Trees* t, int64_t node, bint fresh, int64_t* n) noexcept nogil:
    return divide_target(t, node, fresh, n) if t.regression else divide(t, node, fresh, n)


cdef inline bint attempt(Trees* t, int64_t tree, int64_t node) noexcept nogil:
    """``_attempt_to_split``; whether the node is a branch now."""
    cdef int64_t leaf = t.nodes[node].leaf, n
    cdef int64_t branch = divide_leaf(t, node, False, &n)
    if branch == STAYS:
        return False
    if branch == NULL_SPLIT:
        deactivate(t, tree, leaf)
    else:
        drop_leaf(t, leaf)
        t.trees[tree].leaves += n - 1
    if t.trees[tree].inactive > 0:
        if t.of.stop != 0.0:
            t.trees[tree].stopped = 1
        else:
            activate(t, tree, t.trees[tree].root)
    return branch >= 0


cdef inline void learn_tree(
    Trees* t, int64_t tree, const double* x, double y, double w, bint whole, bint predicted
) noexcept nogil:
    """``learn_one`` of a tree; see ``learn_leaf``."""
    cdef Tree* own = &t.trees[tree]
    cdef int64_t node, child, leaf
    cdef bint stuck = False
    cdef double seen
    if not t.regression:
        t.seen[tree * t.size + <int64_t> y] = 1
    if own.root < 0:
        own.root, own.leaves = leaf_node(t, 0), 1
    node = own.root
    while t.nodes[node].kind != LEAF:
        child = toward(t, node, x[t.nodes[node].column])
        if child < 0:
            # The leaf that it comes to then does not split.
            stuck = True
            child = otherwise(t, node, x[t.nodes[node].column], own.leaves < t.of.leaf_limit, &own.leaves)
        node = child
    leaf = t.nodes[node].leaf
    learn_leaf(t, leaf, x, y, w, whole, predicted)
    if stuck or leaf_at(t, leaf).active == 0 or own.stopped == 1 or own.leaves >= t.of.leaf_limit:
        return
    if t.nodes[node].depth >= t.of.depth_limit:
        deactivate(t, tree, leaf)
        return
    seen = weight_of(t, leaf)
    if seen - hits_at(t, leaf).attempted >= t.of.grace and not attempt(t, tree, node):
        hits_at(t, leaf).attempted = seen
