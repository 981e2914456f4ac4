# The way of a record through a tree, and how nodes come and go.

from libc.math cimport isnan
from libc.stdint cimport int64_t
from libc.string cimport memset

from explain_core.engine.adwin cimport reset
from explain_core.engine.bayes cimport weight_of
from explain_core.engine.layout cimport *
from explain_core.engine.leaves cimport drop_leaf, forget, new_leaf


cdef inline int64_t new_node(Trees* t, int64_t leaf, int64_t depth) noexcept nogil:
    """A node that is a leaf."""
    cdef int64_t node = take(t, NODE_POOL)
    if t.adaptive:
        t.alternates[node] = -1
        reset(t, node)
    t.nodes[node] = Node(LEAF, 0, -1, -1, -1, leaf, depth)
    t.splits[node] = Split(0.0, 0.0)
    return node


cdef inline int64_t leaf_node(Trees* t, int64_t depth) noexcept nogil:
    """A node with an empty leaf."""
    return new_node(t, new_leaf(t), depth)


cdef inline void append_child(Trees* t, int64_t branch, int64_t child, double key) noexcept nogil:
    """Make a node the branch's last child."""
    t.splits[child].key = key
    if t.nodes[branch].left < 0:
        t.nodes[branch].left = child
    else:
        t.nodes[t.nodes[branch].right].next = child
    t.nodes[branch].right = child


cdef inline int64_t toward(Trees* t, int64_t branch, double value) noexcept nogil:
    """The child to which a value of the branch's feature goes; −1 where river has none: the feature is missing, or the category new."""
    cdef Node* node = &t.nodes[branch]
    cdef int64_t child
    if isnan(value):
        return -1
    if node.kind == THRESHOLDED:
        return node.left if value <= t.splits[branch].threshold else node.right
    if node.kind == EQUAL:
        return node.left if value == t.splits[branch].threshold else node.right
    child = node.left
    while child >= 0 and t.splits[child].key != value:
        child = t.nodes[child].next
    return child


cdef inline double total_weight(Trees* t, int64_t node) noexcept nogil:
    """``total_weight``."""
    cdef double result = 0.0
    cdef int64_t child
    if t.nodes[node].kind == LEAF:
        return weight_of(t, t.nodes[node].leaf)
    child = t.nodes[node].left
    while child >= 0:
        result += total_weight(t, child)
        child = t.nodes[child].next
    return result


cdef inline int64_t most_common(Trees* t, int64_t branch) noexcept nogil:
    """``most_common_path``: the first child of the greatest weight."""
    cdef int64_t best = -1, child = t.nodes[branch].left
    cdef double weight = 0.0, value
    while child >= 0:
        value = total_weight(t, child)
        if best < 0 or value > weight:
            best, weight = child, value
        child = t.nodes[child].next
    return best


cdef inline int64_t otherwise(Trees* t, int64_t branch, double value, bint room, int64_t* leaves) noexcept nogil:
    """The child for a record to learn that goes ``toward`` none: of a new category a leaf of its own where there is room, counted in ``leaves``."""
    cdef int64_t child
    if t.nodes[branch].kind != MULTIWAY or isnan(value) or not room:
        return most_common(t, branch)
    child = leaf_node(t, t.nodes[branch].depth + 1)
    append_child(t, branch, child, value)
    leaves[0] += 1
    return child


cdef inline int64_t next_node(Trees* t, int64_t branch, double value, int64_t* times) noexcept nogil:
    """The node after a branch, and how often river's walk comes by it."""
    cdef int64_t child = toward(t, branch, value)
    times[0] = 1 if child >= 0 else 2
    return child if child >= 0 else most_common(t, branch)


cdef inline int64_t descend(Trees* t, int64_t node, const double* x) noexcept nogil:
    """The node that is the record's leaf, for a prediction."""
    cdef int64_t times
    while t.nodes[node].kind != LEAF:
        node = next_node(t, node, x[t.nodes[node].column], &times)
    return node


cdef inline void release(Trees* t, int64_t root) noexcept nogil:
    """Give a tree's nodes and leaves back."""
    cdef int64_t node = root, after
    if root < 0:
        return
    # The nodes still to be given back are a chain through ``next``.
    t.nodes[root].next = -1
    while node >= 0:
        after = t.nodes[node].next
        if t.nodes[node].kind == LEAF:
            drop_leaf(t, t.nodes[node].leaf)
        else:
            t.nodes[t.nodes[node].right].next = after
            after = t.nodes[node].left
        if t.adaptive:
            reset(t, node)
            memset(errors_at(t, node), 0, t.error_width * sizeof(double))
            if t.alternates[node] >= 0:
                t.nodes[t.alternates[node]].next = after
                after = t.alternates[node]
            t.alternates[node] = 0
        t.splits[node] = Split(0.0, 0.0)
        give(t, NODE_POOL, node)
        node = after


cdef inline void activate(Trees* t, int64_t tree, int64_t node) noexcept nogil:
    """``_enforce_size_limit`` of a tree within its limit: every leaf that may still split becomes active, with no memory.

    An adaptive tree counts no inactive leaves. Its alternates belong to it, but for the root's.
    """
    cdef int64_t child
    cdef Leaf* leaf
    if t.nodes[node].kind == LEAF:
        leaf = leaf_at(t, t.nodes[node].leaf)
        if t.nodes[node].depth < t.of.depth_limit:
            if leaf.active == 0 and not t.adaptive:
                t.trees[tree].inactive -= 1
            leaf.active = 1
        return
    child = t.nodes[node].left
    while child >= 0:
        activate(t, tree, child)
        if t.adaptive and t.nodes[child].kind != LEAF and t.alternates[child] >= 0:
            activate(t, tree, t.alternates[child])
        child = t.nodes[child].next


cdef inline void deactivate(Trees* t, int64_t tree, int64_t leaf) noexcept nogil:
    """A leaf's ``deactivate``."""
    forget(t, leaf)
    leaf_at(t, leaf).active = 0
    if not t.adaptive:
        t.trees[tree].inactive += 1


cdef inline int64_t split_node(
    Trees* t, int64_t node, bint fresh, int64_t observer, int64_t kind, double point, int64_t n, const double* categories
) noexcept nogil:
    """Make a node, or a fresh one in its place, a branch with n empty leaves; returns it."""
    cdef int64_t branch = new_node(t, -1, t.nodes[node].depth) if fresh else node, i
    cdef Node* own = &t.nodes[branch]
    own.kind, own.column, own.left, own.leaf = kind, t.observers[observer].feature, -1, -1
    t.splits[branch].threshold = point
    for i in range(n):
        append_child(t, branch, leaf_node(t, own.depth + 1), categories[i] if kind == MULTIWAY else 0.0)
    return branch
