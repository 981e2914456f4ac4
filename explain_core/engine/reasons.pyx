"""Interventional Shapley values of a prediction by a trained ensemble of trees, exact, in the margin: the sums over the trees.

A feature that a coalition does not know has the value that it has in a row of the background; the value of a coalition is the mean over these rows.
A leaf counts for a coalition and a row z if each feature on the way to it leads there: by x where the coalition knows the feature, by z otherwise.
So with a of these features that lead there by x alone, and b by z alone, each of the a gets (a − 1)! b! / (a + b)! of the leaf's value, and each of the b
loses a! (b − 1)! / (a + b)! of it (Lundberg et al. 2020, Interventional TreeSHAP). Two ways to add that up:

- ``by_walks`` takes all rows of the background through a tree together, as bits of a word, and parts them only where they differ: for few records, and deep trees.
- ``by_tables`` looks up for each leaf what it gives to the features on its way, by which of them lead elsewhere by x (WOODELF, arXiv 2511.09376):
  for many records, and trees whose tables are small. A table is that of one tree, and is gone when the next one's is made.
"""

from libc.math cimport exp, lgamma
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from explain_core.engine.ensemble_layout cimport *

cdef extern from *:
    """
    #define ones(word) __builtin_popcountll(word)
    #define lowest_bit(word) __builtin_ctzll(word)
    """
    int ones(uint64_t word) noexcept nogil
    int lowest_bit(uint64_t word) noexcept nogil

cdef enum:
    SMALL = 32  # features on a way whose shares are computed once
    MOST_ON_A_WAY = 16  # features on a way to a leaf with a table
    MOST_CELLS = 1 << 20  # of a tree's tables

cdef enum:  # which of the two leads to a leaf, of the features that do not lead there by both
    BOTH
    BY_RECORD
    BY_ROW


cdef struct Waiting:  # at a node, with the features that lead elsewhere by one of the two
    int64_t node
    int64_t n_parted
    int64_t column  # the one that parted last, −1 for none
    int64_t side


cdef struct Walk:
    Ensemble* e
    Py_ssize_t words  # of a set of rows
    const uint64_t* right  # nodes × words: the rows that go to the right
    uint64_t* all_rows  # a set
    const double* weights  # of each row; NULL where all are the same
    double weight  # then
    Waiting* waiting
    uint64_t* sets  # of those that wait
    int64_t* parted  # the columns on the way to here that lead here by one of the two
    int64_t* sides  # by column
    double shares[SMALL][SMALL]


cdef double share_of(int64_t a, int64_t b) noexcept nogil:
    """(a − 1)! b! / (a + b)!"""
    cdef double result = 1.0 / a
    cdef int64_t i
    if a + b > 2 * SMALL:
        return exp(lgamma(<double> a) + lgamma(b + 1.0) - lgamma(a + b + 1.0))
    for i in range(1, b + 1):
        result *= i / <double> (a + i)
    return result


cdef inline double known_share(Walk* w, int64_t a, int64_t b) noexcept nogil:
    return w.shares[a][b] if a < SMALL and b < SMALL else share_of(a, b)


cdef void fill_shares(Walk* w) noexcept nogil:
    cdef int64_t a, b
    for a in range(1, SMALL):
        for b in range(SMALL):
            w.shares[a][b] = share_of(a, b)


cdef int64_t end_of(Ensemble* e, Py_ssize_t tree) noexcept nogil:
    return e.trees[tree + 1].root if tree + 1 < e.n_trees else e.n_nodes


cdef int64_t deepest(Ensemble* e) noexcept nogil:
    """Nodes on the longest way from a root to a leaf: children come after their parents."""
    cdef int64_t node, best = 1
    cdef int64_t* depths = <int64_t*> malloc(e.n_nodes * sizeof(int64_t))
    for node in range(e.n_trees):
        depths[e.trees[node].root] = 1
    for node in range(e.n_nodes):
        best = max(best, depths[node])
        if e.nodes[node].column >= 0:
            depths[e.nodes[node].child] = depths[e.nodes[node].child + 1] = depths[node] + 1
    free(depths)
    return best


cdef double weight_of(Walk* w, const uint64_t* rows) noexcept nogil:
    """Of a set of rows."""
    cdef Py_ssize_t k
    cdef int64_t count = 0
    cdef double whole = 0.0
    cdef uint64_t left
    if w.weights == NULL:
        for k in range(w.words):
            count += ones(rows[k])
        return count * w.weight
    for k in range(w.words):
        left = rows[k]
        while left != 0:
            whole += w.weights[64 * k + lowest_bit(left)]
            left &= left - 1
    return whole


cdef void add_leaf(Walk* w, Tree* tree, int64_t leaf, const uint64_t* rows, int64_t n_parted, double* out) noexcept nogil:
    """What a leaf gives to the features that lead to it by one of the two; ``out``: columns × outputs."""
    cdef Ensemble* e = w.e
    cdef const double* values = e.leaves + leaf * e.leaf_width
    cdef int64_t a = 0, b, i, column
    cdef Py_ssize_t k
    cdef double whole = weight_of(w, rows), gained, lost, part
    cdef double* own
    for i in range(n_parted):
        a += w.sides[w.parted[i]] == BY_RECORD
    b = n_parted - a
    gained = known_share(w, a, b) * whole if a > 0 else 0.0
    lost = known_share(w, b, a) * whole if b > 0 else 0.0
    for i in range(n_parted):
        column = w.parted[i]
        part = gained if w.sides[column] == BY_RECORD else -lost
        own = out + column * e.outputs + tree.output
        for k in range(e.leaf_width):
            own[k] += part * values[k]


cdef void walk_tree(Walk* w, Tree* tree, const double* x, double* out) noexcept nogil:
    """Add a tree's part of the values of x: the sum over the rows of the background by their weights."""
    cdef Ensemble* e = w.e
    cdef Py_ssize_t words = w.words, k
    cdef int64_t n = 1, n_parted = 0, node, column, side
    cdef bint right, any_same, any_other
    cdef uint64_t* here  # then those that go another way than the record
    cdef uint64_t way
    w.waiting[0] = Waiting(tree.root, 0, -1, BOTH)
    memcpy(w.sets, w.all_rows, words * sizeof(uint64_t))
    while n > 0:
        n -= 1
        node, here = w.waiting[n].node, w.sets + n * words
        while n_parted > w.waiting[n].n_parted:
            n_parted -= 1
            w.sides[w.parted[n_parted]] = BOTH
        if w.waiting[n].column >= 0:
            column = w.waiting[n].column
            w.parted[n_parted], w.sides[column] = column, w.waiting[n].side
            n_parted += 1
        column = e.nodes[node].column
        if column < 0:
            if n_parted > 0:
                add_leaf(w, tree, e.nodes[node].child, here, n_parted, out)
            continue
        right = goes_right(e, column, e.nodes[node].threshold, x[column >> FLAG_BITS])
        column >>= FLAG_BITS
        side, any_same, any_other = w.sides[column], False, False
        if side != BY_RECORD:
            for k in range(words):
                way = w.right[node * words + k] if right else ~w.right[node * words + k]
                here[words + k] = here[k] & ~way
                here[k] &= way
                any_same, any_other = any_same or here[k] != 0, any_other or here[words + k] != 0
        if any_same or not any_other:
            w.waiting[n] = Waiting(e.nodes[node].child + right, n_parted, -1, BOTH)
            n += 1
        else:
            memcpy(here, here + words, words * sizeof(uint64_t))
        if any_other:
            w.waiting[n] = Waiting(e.nodes[node].child + (not right), n_parted, -1 if side == BY_ROW else column, BY_ROW)
            n += 1
            if side == BOTH:
                memcpy(w.sets + n * words, w.sets + (n - 1) * words, words * sizeof(uint64_t))
                w.waiting[n] = Waiting(e.nodes[node].child + right, n_parted, column, BY_RECORD)
                n += 1
    while n_parted > 0:
        n_parted -= 1
        w.sides[w.parted[n_parted]] = BOTH


cdef bint get_walk(Walk* w, Ensemble* e, const uint64_t* right, Py_ssize_t words, Py_ssize_t n, Py_ssize_t width) noexcept nogil:
    """Room for walks with n rows of the background, of equal weights; False where there is not so much memory."""
    cdef int64_t depth = deepest(e)
    cdef Py_ssize_t slot
    w.e, w.right, w.words, w.weights, w.weight = e, right, words, NULL, 1.0 / n
    w.waiting = <Waiting*> malloc(
        (2 * depth + 4) * (sizeof(Waiting) + words * sizeof(uint64_t)) + words * sizeof(uint64_t) + (depth + width) * sizeof(int64_t)
    )
    if w.waiting == NULL:
        return False
    w.sets = <uint64_t*> (w.waiting + 2 * depth + 4)
    w.all_rows = w.sets + (2 * depth + 4) * words
    w.parted = <int64_t*> (w.all_rows + words)
    w.sides = w.parted + depth
    memset(w.sides, 0, width * sizeof(int64_t))
    memset(w.all_rows, 0, words * sizeof(uint64_t))
    for slot in range(n):
        w.all_rows[slot // 64] |= <uint64_t> 1 << (slot % 64)
    fill_shares(w)
    return True


def note(const int64_t[::1] table, const double[::1] row, Py_ssize_t slot, uint64_t[:, ::1] right):
    """Say of a row of the background, at each node, whether it goes to the right; ``right``: nodes × words, a bit for each slot."""
    cdef Ensemble e
    cdef int64_t node, column
    cdef uint64_t bit = <uint64_t> 1 << (slot % 64)
    open_ensemble(&table[0], &e)
    for node in range(right.shape[0]):
        column = e.nodes[node].column
        if column >= 0 and goes_right(&e, column, e.nodes[node].threshold, row[column >> FLAG_BITS]):
            right[node, slot // 64] |= bit
        else:
            right[node, slot // 64] &= ~bit


def margins(const int64_t[::1] table, const double[:, ::1] rows, double[:, ::1] out):
    """The sums over the trees in double precision, whatever the library's: rows × outputs."""
    cdef Ensemble e
    cdef Py_ssize_t r, tree, i
    cdef int64_t leaf
    open_ensemble(&table[0], &e)
    for r in range(rows.shape[0]):
        for i in range(e.outputs):
            out[r, i] = e.base[i]
        for tree in range(e.n_trees):
            leaf = leaf_below(&e, e.trees[tree].root, &rows[r, 0] if rows.shape[1] else NULL)
            for i in range(e.leaf_width):
                out[r, e.trees[tree].output + i] += e.leaves[leaf * e.leaf_width + i]


def by_walks(const int64_t[::1] table, const double[:, ::1] rows, const uint64_t[:, ::1] right, Py_ssize_t n, double[:, :, ::1] out, const double[:, ::1] weights=None):
    """Shapley values of rows against n rows of the background, rows × columns × outputs. Raises ``MemoryError``.

    They are means over the background, or sums by the ``weights`` that each row gives it: rows × n.
    """
    cdef Ensemble e
    cdef Walk w
    cdef Py_ssize_t r, tree
    open_ensemble(&table[0], &e)
    if not get_walk(&w, &e, &right[0, 0], right.shape[1], n, rows.shape[1]):
        raise MemoryError
    memset(&out[0, 0, 0], 0, out.shape[0] * out.shape[1] * out.shape[2] * sizeof(double))
    for r in range(rows.shape[0]):
        if weights is not None:
            w.weights = &weights[r, 0]
        for tree in range(e.n_trees):
            walk_tree(&w, &e.trees[tree], &rows[r, 0], &out[r, 0, 0])
    free(w.waiting)


cdef struct Way:  # to a node of the tree at hand
    int64_t parent
    int64_t n  # features that differ from each other
    int64_t place  # of the feature that the node asks for, among those on the ways through it
    int64_t cells  # a leaf's first
    uint32_t fails  # the features that lead elsewhere by x


cdef int64_t lay_ways(Ensemble* e, int64_t root, int64_t end, Way* ways) noexcept nogil:
    """The ways to the nodes of a tree; returns the cells of its tables, −1 where they are too many."""
    cdef int64_t node, child, up, cells = 0, k
    cdef Way* own
    ways[0] = Way(-1, 0, 0, 0, 0)
    for node in range(root, end):
        own = &ways[node - root]
        if e.nodes[node].column < 0:
            own.cells = cells
            cells += own.n << own.n
            if cells > MOST_CELLS:
                return -1
            continue
        up, own.place = own.parent, own.n
        while up >= 0:
            if e.nodes[root + up].column >> FLAG_BITS == e.nodes[node].column >> FLAG_BITS:
                own.place = ways[up].place
                break
            up = ways[up].parent
        k = own.n + (own.place == own.n)
        if k > MOST_ON_A_WAY:
            return -1
        child = e.nodes[node].child - root
        ways[child] = ways[child + 1] = Way(node - root, k, 0, 0, 0)
    return cells


cdef void fill_table(Walk* w, Way* ways, int64_t root, int64_t leaf, Py_ssize_t n_rows, int64_t* counts, double* cells) noexcept nogil:
    """What a leaf gives to the features on its way, for each set of them that leads elsewhere by x."""
    cdef Ensemble* e = w.e
    cdef Way* own = &ways[leaf - root]
    cdef int64_t size = <int64_t> 1 << own.n, row, at, up, z, x, free_of, i, a
    cdef bint right
    cdef double gained, lost
    memset(counts, 0, size * sizeof(int64_t))
    memset(cells, 0, own.n * size * sizeof(double))
    for row in range(n_rows):
        z, at, up = 0, leaf, own.parent
        while up >= 0:
            right = (w.right[(root + up) * w.words + row // 64] >> (row % 64)) & 1
            if e.nodes[root + up].child + right != at:
                z |= <int64_t> 1 << ways[up].place
            at, up = root + up, ways[up].parent
        counts[z] += 1
    for z in range(size):
        if counts[z] == 0:
            continue
        a, free_of = ones(z), (size - 1) ^ z
        x = free_of
        while True:  # the subsets of the features that lead here by z
            gained = known_share(w, a, ones(x)) * counts[z] / n_rows if a > 0 else 0.0
            lost = known_share(w, ones(x), a) * counts[z] / n_rows if x > 0 else 0.0
            for i in range(own.n):
                if (z >> i) & 1:
                    cells[x * own.n + i] += gained
                elif (x >> i) & 1:
                    cells[x * own.n + i] -= lost
            if x == 0:
                break
            x = (x - 1) & free_of


def by_tables(const int64_t[::1] table, const double[:, ::1] rows, const uint64_t[:, ::1] right, Py_ssize_t n, double[:, :, ::1] out):
    """``by_walks``, up to rounding; trees whose tables are too large are walked. Raises ``MemoryError``."""
    cdef Ensemble e
    cdef Walk w
    cdef Py_ssize_t r, tree, k, width = rows.shape[1]
    cdef int64_t root, end, node, n_cells, column, up, widest = 0, i
    cdef Way* ways
    cdef Way* own
    cdef double* cells
    cdef int64_t* counts
    cdef int64_t* columns  # of a leaf, by place
    cdef const double* found
    cdef const double* values
    cdef double* of_row
    cdef double* at
    cdef bint goes
    open_ensemble(&table[0], &e)
    if not get_walk(&w, &e, &right[0, 0], right.shape[1], n, width):
        raise MemoryError
    for tree in range(e.n_trees):
        widest = max(widest, end_of(&e, tree) - e.trees[tree].root)
    ways = <Way*> malloc(widest * (sizeof(Way) + MOST_ON_A_WAY * 8) + (MOST_CELLS + 1) * 8 + (1 << MOST_ON_A_WAY) * 8)
    if ways == NULL:
        free(w.waiting)
        raise MemoryError
    columns = <int64_t*> (ways + widest)
    counts = columns + widest * MOST_ON_A_WAY
    cells = <double*> (counts + (1 << MOST_ON_A_WAY))
    memset(&out[0, 0, 0], 0, out.shape[0] * out.shape[1] * out.shape[2] * sizeof(double))
    for tree in range(e.n_trees):
        root, end = e.trees[tree].root, end_of(&e, tree)
        n_cells = lay_ways(&e, root, end, ways)
        if n_cells < 0:
            for r in range(rows.shape[0]):
                walk_tree(&w, &e.trees[tree], &rows[r, 0], &out[r, 0, 0])
            continue
        for node in range(root, end):
            if e.nodes[node].column < 0:
                own = &ways[node - root]
                up = own.parent
                while up >= 0:
                    columns[(node - root) * MOST_ON_A_WAY + ways[up].place] = e.nodes[root + up].column >> FLAG_BITS
                    up = ways[up].parent
                fill_table(&w, ways, root, node, n, counts, cells + own.cells)
        for r in range(rows.shape[0]):
            of_row = &out[r, 0, 0] + e.trees[tree].output
            for node in range(root, end):
                own, column = &ways[node - root], e.nodes[node].column
                if column >= 0:
                    goes = goes_right(&e, column, e.nodes[node].threshold, rows[r, column >> FLAG_BITS])
                    up = e.nodes[node].child - root
                    ways[up].fails = own.fails | (<uint32_t> goes << own.place)
                    ways[up + 1].fails = own.fails | (<uint32_t> (not goes) << own.place)
                    continue
                found = cells + own.cells + own.fails * own.n
                values = e.leaves + e.nodes[node].child * e.leaf_width
                for i in range(own.n):
                    at = of_row + columns[(node - root) * MOST_ON_A_WAY + i] * e.outputs
                    for k in range(e.leaf_width):
                        at[k] += found[i] * values[k]
    free(ways)
    free(w.waiting)
