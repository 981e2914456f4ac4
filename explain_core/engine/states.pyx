"""Whether a stored tree learner holds together, before anything follows its chains; and the free rows of pools."""

import numpy as np

from libc.math cimport floor
from libc.stdint cimport int8_t, int64_t

from explain_core.engine.layout cimport *

cdef enum:  # parts of a learner that may not hold together
    TREES = 1
    LEAVES = 2
    DETECTORS = 4
    MEMBERS = 5

cdef enum:  # what is met once only
    CLASSES  # of a leaf
    DRAWN  # features of a leaf
    OBSERVED  # features of a leaf's observers
    OF_OBSERVER  # classes of an observer
    CATEGORIES  # of a chain
    KEYS  # of a branch
    N_MARKS

cdef enum:
    DEEPEST = 1000

cdef int64_t MOST = 2**53 - 1  # explain_core.state.LARGEST_COUNT


cdef inline bint inside(int64_t value, int64_t n) noexcept nogil:
    return 0 <= value < n


cdef inline bint is_code(double value, int64_t n) noexcept nogil:
    return 0.0 <= value < n and value == floor(value)


cdef class Check:
    """A learner with so many classes; ``sizes`` and ``nominal`` by column its categories, and whether it has some.

    The five arrays of ``met`` are 1 for the rows of each pool that are free, and after ``fault`` for those that were met too.
    """

    cdef Trees t
    cdef int64_t n_classes
    cdef const int64_t[::1] sizes, nominal
    cdef int64_t[:, ::1] marks  # by kind and value, the mark under which it was met last
    cdef int8_t[::1] nodes, leaves, observers, cells, chains
    cdef int64_t[::1] to_do, depths, points, used

    def __init__(self, const int64_t[::1] table, int64_t n_classes, const int64_t[::1] sizes, const int64_t[::1] nominal, met):
        open_trees(&table[0], &self.t)
        self.n_classes, self.sizes, self.nominal = n_classes, sizes, nominal
        self.nodes, self.leaves, self.observers, self.cells, self.chains = met
        widest = max(n_classes, len(sizes), np.asarray(sizes).max(initial=0))
        self.marks = np.zeros((N_MARKS, widest), np.int64)
        self.to_do, self.depths = np.empty(self.t.rooms[NODE_POOL] + 1, np.int64), np.empty(self.t.rooms[NODE_POOL] + 1, np.int64)
        self.points = np.empty(2 * len(self.cells) + 2, np.int64)
        self.used = np.zeros(self.t.n_trees, np.int64)

    cdef bint first(self, int kind, int64_t value, int64_t mark) noexcept nogil:
        """Whether a value of that kind is met for the first time under this mark."""
        if self.marks[kind, value] == mark:
            return False
        self.marks[kind, value] = mark
        return True

    cdef bint row(self, int8_t[::1] met, int64_t row) noexcept nogil:
        """Whether a row is one of the pool, and met for the first time."""
        if not inside(row, met.shape[0]) or met[row] == 1:
            return False
        met[row] = 1
        return True

    cdef bint targets(self, int64_t observer, int64_t column) noexcept nogil:
        """Whether the points of a regression tree's observer are a search tree, or a chain."""
        cdef Trees* t = &self.t
        cdef int64_t cell = t.observers[observer].cells, n = 1, child
        cdef int side
        if cell == -1:
            return True
        if not inside(cell, t.rooms[CELL_POOL]) or fork_at(t, cell).parent != -1:
            return False
        self.points[0] = cell
        while n > 0:
            n -= 1
            cell = self.points[n]
            if not self.row(self.cells, cell):
                return False
            if self.nominal[column] == 1:
                if not is_code(point_at(t, cell).point, self.sizes[column]) or fork_at(t, cell).below != -1:
                    return False
                if not self.first(CATEGORIES, <int64_t> point_at(t, cell).point, observer + 1):
                    return False
            for side in range(2):
                child = fork_at(t, cell).below if side == 0 else fork_at(t, cell).above
                if child != -1:
                    if not inside(child, t.rooms[CELL_POOL]) or fork_at(t, child).parent != cell:
                        return False
                    self.points[n] = child
                    n += 1
        return True

    cdef bint classes(self, int64_t observer, int64_t column, int64_t mark) noexcept nogil:
        """Whether the cells of a classification tree's observer are a chain of the leaf's classes, each with one of categories."""
        cdef Trees* t = &self.t
        cdef int64_t cell = t.observers[observer].cells, value, of
        while cell != -1:
            if not self.row(self.cells, cell):
                return False
            of, value = link_at(t, cell).of, link_at(t, cell).values
            if not inside(of, self.n_classes) or self.marks[CLASSES, of] != mark:
                return False
            if not self.first(OF_OBSERVER, of, observer + 1) or (value != -1 and self.nominal[column] == 0):
                return False
            while value != -1:
                if not self.row(self.cells, value) or link_at(t, value).values != -1:
                    return False
                if not is_code(category_at(t, value).value, self.sizes[column]):
                    return False
                if not self.first(CATEGORIES, <int64_t> category_at(t, value).value, cell + 1):
                    return False
                value = link_at(t, value).next
            cell = link_at(t, cell).next
        return True

    cdef bint leaf(self, int64_t leaf) noexcept nogil:
        """Whether a leaf and its chains are sound."""
        cdef Trees* t = &self.t
        cdef Leaf* own
        cdef int64_t mark = leaf + 1, i, column, observer, last = -1, categorical = 0
        if not self.row(self.leaves, leaf):
            return False
        own = leaf_at(t, leaf)
        if not inside(own.count, self.n_classes + 1) or not inside(own.sampled, t.head.n_features + 1):
            return False
        if not inside(own.active, 2):
            return False
        for i in range(own.count):
            if not inside(classes_at(t, leaf)[i], self.n_classes) or not self.first(CLASSES, classes_at(t, leaf)[i], mark):
                return False
        for i in range(own.sampled):
            column = drawn_at(t, leaf)[i]
            if not inside(column, self.sizes.shape[0]) or not self.first(DRAWN, column, mark):
                return False
        observer = own.first
        while observer != -1:
            if not self.row(self.observers, observer):
                return False
            column = t.observers[observer].feature
            if not inside(column, self.sizes.shape[0]) or t.observers[observer].categorical != self.nominal[column]:
                return False
            if not self.first(OBSERVED, column, mark):
                return False
            categorical += self.nominal[column]
            if t.regression:
                if not self.targets(observer, column):
                    return False
            elif not self.classes(observer, column, mark):
                return False
            last = observer
            observer = t.observers[observer].next
        return own.last == last and own.nominals == categorical

    cdef bint window(self, int64_t window, const Detector* detector) noexcept nogil:
        """Whether a detector's window is sound: as wide as its buckets."""
        cdef Trees* t = &self.t
        cdef int64_t row = t.ends[window].newest, before = -1, most = <int64_t> detector.most_buckets
        cdef double width = 0.0, size = 1.0
        while row != -1:
            if not self.row(self.chains, row) or t.chains[row].newer != before:
                return False
            if not 1 <= t.chains[row].count <= most:
                return False
            width += size * t.chains[row].count
            size *= 2.0
            before = row
            row = t.chains[row].older
        if t.ends[window].oldest != before or t.windows[window].width != width or not width <= MOST:
            return False
        return inside(t.ends[window].tick, MOST) and inside(t.ends[window].drifted, 2)

    cdef int tree(self, int64_t tree) noexcept nogil:
        """Which part of a tree is not sound, 0 for none."""
        cdef Trees* t = &self.t
        cdef int64_t root = t.trees[tree].root, n_nodes = t.rooms[NODE_POOL], n = 0, leaves = 0, inactive = 0, node, depth, kind, column, other, child, last, count
        cdef double key
        if root != -1:
            if not inside(root, n_nodes) or t.nodes[root].next != -1:
                return TREES
            self.to_do[0], self.depths[0], n = root, 0, 1
        while n > 0:
            n -= 1
            node, depth = self.to_do[n], self.depths[n]
            if not self.row(self.nodes, node) or t.nodes[node].depth != depth or depth > DEEPEST:
                return TREES
            if t.adaptive and not self.window(node, &t.detectors[0]):
                return DETECTORS
            kind = t.nodes[node].kind
            if kind == LEAF:
                if t.adaptive and t.alternates[node] != -1:
                    return TREES
                if not self.leaf(t.nodes[node].leaf):
                    return LEAVES
                leaves += 1
                inactive += 1 - leaf_at(t, t.nodes[node].leaf).active
                continue
            column = t.nodes[node].column
            if not inside(kind, 4) or not inside(column, self.sizes.shape[0]):
                return TREES
            if (kind == THRESHOLDED) == (self.nominal[column] == 1):
                return TREES
            if kind == EQUAL and not is_code(t.splits[node].threshold, self.sizes[column]):
                return TREES
            if t.adaptive and t.alternates[node] != -1:
                other = t.alternates[node]
                if not inside(other, n_nodes) or t.nodes[other].kind != LEAF or n >= n_nodes or t.nodes[other].next != -1:
                    return TREES
                self.to_do[n], self.depths[n] = other, depth
                n += 1
            child, last, count = t.nodes[node].left, -1, 0
            while child != -1:
                if not inside(child, n_nodes) or n >= n_nodes or count > n_nodes:
                    return TREES
                if kind == MULTIWAY:
                    key = t.splits[child].key
                    if not is_code(key, self.sizes[column]) or not self.first(KEYS, <int64_t> key, node + 1):
                        return TREES
                self.to_do[n], self.depths[n] = child, depth + 1
                n += 1
                count += 1
                last = child
                child = t.nodes[child].next
            if last != t.nodes[node].right or count == 0 or (kind != MULTIWAY and count != 2):
                return TREES
        if t.adaptive:  # which counts none
            leaves, inactive = 0, 0
        if t.trees[tree].leaves != leaves or t.trees[tree].inactive != inactive or not inside(t.trees[tree].stopped, 2):
            return TREES
        return 0

    cdef bint member(self, int64_t member) noexcept nogil:
        """Whether a member has trees of its own."""
        cdef int64_t tree
        cdef int which
        for which in range(2):
            tree = self.t.members[member].background if which else self.t.members[member].foreground
            if tree != -1:
                if not inside(tree, self.t.n_trees) or tree // 2 != member or self.used[tree] == 1:
                    return False
                self.used[tree] = 1
        return self.t.members[member].foreground >= 0

    def fault(self):
        """Which part is not sound, 0 for none: 1 trees, 2 leaves, 4 detectors, 5 members. No row may be neither free nor met afterwards."""
        cdef int64_t i
        cdef int found
        for i in range(self.t.n_members):
            if not self.member(i):
                return MEMBERS
        for i in range(self.t.n_trees):
            found = self.tree(i)
            if found:
                return found
        for i in range(0 if self.t.adaptive else self.t.n_windows):
            if not self.window(i, &self.t.detectors[i % 2]):
                return DETECTORS
        return 0


def apart(const int64_t[:, ::1] free_rows, int64_t size):
    """Of so many rows 1 for each that is free, else 0; and the others."""
    mask, used = np.zeros(size, np.int8), np.empty(size, np.int64)
    cdef int8_t[::1] marks = mask
    cdef int64_t[::1] others = used
    cdef int64_t n = 0, i
    for i in range(free_rows.shape[0]):
        if inside(free_rows[i, 0], size):
            marks[free_rows[i, 0]] = 1
    for i in range(size):
        if marks[i] == 0:
            others[n] = i
            n += 1
    return mask, used[:n]


def scattered(const int64_t[:, ::1] rows, const int64_t[::1] places, int64_t size):
    """The rows in their places among so many, the others zero."""
    found = np.zeros((size, rows.shape[1]), np.int64)
    cdef int64_t[:, ::1] out = found
    cdef Py_ssize_t row, column
    for row in range(places.shape[0]):
        for column in range(rows.shape[1]):
            out[places[row], column] = rows[row, column]
    return found
