"""Trained ensembles of trees: their predictions, and how these are explained, tree by tree instead of copy by copy.

Each prediction adds the trees up in their order, as the library that trained them does. An ensemble's table of arrays is
that of ``explain_core.artefacts.ensemble``: for walks through the trees, or for shallow trees by sets of bits.
"""

from cython cimport floating
from libc.math cimport copysign, exp, log1p
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from explain_core.engine.ensemble_layout cimport *
from explain_core.engine.explaining cimport Plan, draw_copies

cdef extern from *:
    """
    #define lowest_bit(word) __builtin_ctzll(word)
    """
    int lowest_bit(uint64_t word) noexcept nogil

cdef enum:
    TOGETHER = 4  # rows whose leaves are added up in one loop: a sum has to wait for its last addition, others use the time


cdef struct Segment:
    # The rows of this range have reached a leaf; a later segment overrides those before.
    int64_t begin
    int64_t end
    int64_t step
    int64_t leaf


cdef struct Interval:  # steps of a drawn row that wait at a node
    int64_t node
    int64_t begin
    int64_t end


cdef inline double as_wide(double value, bint single) noexcept nogil:
    """A number as wide as the library's."""
    return <double> <float> value if single else value


cdef void start_sums(Ensemble* e, double* sums, Py_ssize_t n) noexcept nogil:
    """Sums over no tree yet, outputs × n rows."""
    cdef Py_ssize_t i, c
    for i in range(e.outputs):
        for c in range(n):
            sums[i * n + c] = e.base[i]


cdef void add_tree(Ensemble* e, Tree* tree, const Segment* segments, Py_ssize_t count, double* values, double* sums, Py_ssize_t n) noexcept nogil:
    """Add a tree to the sums, outputs × n rows; ``values`` is room for as many."""
    cdef Py_ssize_t i, k, c
    cdef double* own
    cdef double value
    for i in range(e.leaf_width):
        own = sums + (tree.output + i) * n
        for k in range(count):
            value = e.leaves[segments[k].leaf * e.leaf_width + i]
            c = segments[k].begin
            while c < segments[k].end:
                values[c] = value
                c += segments[k].step
        if e.head.single:  # two loops, so that each becomes vector instructions
            for c in range(n):
                own[c] = <double> <float> (own[c] + values[c])
        else:
            for c in range(n):
                own[c] += values[c]


cdef void finish(Ensemble* e, const double* sums, Py_ssize_t n, double* out) noexcept nogil:
    """From sums over the trees, outputs × n rows, to predictions, n rows × numbers."""
    cdef int64_t link = e.head.link
    cdef bint single = e.head.single != 0
    cdef double number = e.number[0] if e.number != NULL else 0.0, p, most, whole
    cdef Py_ssize_t c, i, width = e.head.classes
    cdef double* row
    for c in range(n):
        row = out + c * width
        for i in range(e.outputs):
            row[i] = sums[i * n + c]
        if link == SIGMOID:
            p = as_wide(1.0 / as_wide(1.0 + as_wide(exp(-number * row[0]), single), single), single)
            if width == 2:
                row[0] = as_wide(1.0 - p, single)
                row[1] = p
            else:
                row[0] = p
        elif link == COMPLEMENT:
            row[1] = row[0]
            row[0] = as_wide(1.0 - row[1], single)
        elif link == STEP:
            row[1] = 1.0 if row[0] > 0.0 else 0.0
            row[0] = 1.0 - row[1]
        elif link == SOFTMAX:
            most = row[0]
            for i in range(1, e.outputs):
                most = max(most, row[i])
            whole = 0.0
            for i in range(e.outputs):
                row[i] = as_wide(exp(as_wide(row[i] - most, single)), single)
                whole += row[i]
            for i in range(e.outputs):
                row[i] = as_wide(row[i] / as_wide(whole, single), single)
        elif link == SHARE:
            whole = 0.0
            for i in range(e.outputs):
                whole += row[i]
            for i in range(e.outputs):
                row[i] /= whole
        else:
            for i in range(e.outputs):
                if link == EACH_SIGMOID:
                    row[i] = 1.0 / (1.0 + exp(-number * row[i]))
                elif link == EXP:
                    row[i] = as_wide(exp(row[i]), single)
                elif link == MEAN:
                    row[i] /= number
                elif link == SQUARE:
                    row[i] = copysign(row[i] * row[i], row[i])
                elif link == LOG1P_EXP:
                    row[i] = log1p(exp(row[i]))


cdef void row_sums(Ensemble* e, const double* rows, Py_ssize_t n, Py_ssize_t width, double* sums, double* values, Segment* segments) noexcept nogil:
    """Sums over the trees for each of n rows."""
    cdef Py_ssize_t tree, c
    start_sums(e, sums, n)
    for tree in range(e.n_trees):
        for c in range(n):
            segments[c] = Segment(c, c + 1, 1, leaf_below(e, e.trees[tree].root, rows + c * width))
        add_tree(e, &e.trees[tree], segments, n, values, sums, n)


cdef void replaced_sums(Ensemble* e, Plan* p, const double* copies, double* sums, double* values, Segment* segments) noexcept nogil:
    """Sums over the trees for a record and iPFI's copies of it.

    A copy leaves the record's way at the first node that asks for what is replaced in it and answers otherwise: only from there on it
    is walked for itself.
    """
    cdef Py_ssize_t player, i, tree, c, n = p.copies
    cdef int64_t node, column, j, count
    cdef bint right, other
    # By column: the first copy in which it is replaced, and the one after the last. By copy: the tree in which it left, from 1.
    cdef int64_t* begin = <int64_t*> malloc((2 * p.width + n) * sizeof(int64_t))
    cdef int64_t* end = begin + p.width
    cdef int64_t* left = end + p.width
    memset(begin, 0, (2 * p.width + n) * sizeof(int64_t))
    for player in range(p.players if p.m > 0 else 0):
        for i in range(p.starts[player], p.starts[player + 1]):
            begin[p.columns[i]] = 1 + player * p.m
            end[p.columns[i]] = 1 + (player + 1) * p.m
    start_sums(e, sums, n)
    for tree in range(e.n_trees):
        node, count = e.trees[tree].root, 1
        while e.nodes[node].column >= 0:
            column = e.nodes[node].column
            j = column >> FLAG_BITS
            right = goes_right(e, column, e.nodes[node].threshold, copies[j])
            for c in range(begin[j], end[j]):
                other = goes_right(e, column, e.nodes[node].threshold, copies[c * p.width + j])
                if other != right and left[c] != tree + 1:
                    left[c] = tree + 1
                    segments[count] = Segment(c, c + 1, 1, leaf_below(e, e.nodes[node].child + other, copies + c * p.width))
                    count += 1
            node = e.nodes[node].child + right
        segments[0] = Segment(0, n, 1, e.nodes[node].child)
        add_tree(e, &e.trees[tree], segments, count, values, sums, n)
    free(begin)


cdef void joining_sums(Ensemble* e, Plan* p, const double* x, const double* copies, double* sums, double* values, Segment* segments) noexcept nogil:
    """Sums over the trees for iSAGE's copies: a drawn row that takes on the record's values, player after player.

    A node sends the first copies by the drawn row's value and, once its column has joined, the rest by the record's value. So a tree is walked
    once for an interval of steps, and the interval is split where the two values part.
    """
    cdef Py_ssize_t place, i, tree, n = p.steps * p.sage_m
    cdef int64_t k, waiting, node, a, b, column, j, step, count
    cdef bint after, before
    cdef double threshold
    cdef int64_t* joins = <int64_t*> malloc(p.width * sizeof(int64_t))  # the first step that has the record's value of the column
    cdef Interval* stack = <Interval*> malloc((n + 1) * sizeof(Interval))
    memset(joins, 0, p.width * sizeof(int64_t))
    for place in range(p.players):
        for i in range(p.starts[p.order[place]], p.starts[p.order[place] + 1]):
            joins[p.columns[i]] = place + 1 - p.first
    start_sums(e, sums, n)
    for tree in range(e.n_trees):
        count = 0
        for k in range(p.sage_m):
            stack[0], waiting = Interval(e.trees[tree].root, 0, p.steps), 1
            while waiting > 0:
                waiting -= 1
                node, a, b = stack[waiting].node, stack[waiting].begin, stack[waiting].end
                while e.nodes[node].column >= 0:
                    column, threshold = e.nodes[node].column, e.nodes[node].threshold
                    j = column >> FLAG_BITS
                    step = joins[j]
                    after = goes_right(e, column, threshold, x[j])
                    before = goes_right(e, column, threshold, copies[k * p.width + j])
                    if before != after and a < step < b:
                        stack[waiting] = Interval(e.nodes[node].child + after, step, b)
                        waiting += 1
                        b = step
                    node = e.nodes[node].child + (after if step <= a else before)
                segments[count] = Segment(a * p.sage_m + k, b * p.sage_m, p.sage_m, e.nodes[node].child)
                count += 1
        add_tree(e, &e.trees[tree], segments, count, values, sums, n)
    free(joins)
    free(stack)


# Leaves of shallow trees by sets of bits instead of walks: QuickScorer (Lucchese et al., SIGIR 2015).
#
# A tree of up to 64 leaves is a word whose bits are the leaves that are left, the leftmost leaf the lowest. A node that sends a record
# to the right rules out the leaves below its left child. The first leaf that is left once all columns are known is the record's. The
# order of the nodes does not matter: each column is dealt with for all trees at once, with no branch for the processor to guess.


cdef inline void fill(int64_t* target, Py_ssize_t n) noexcept nogil:
    """Words of trees with all their leaves."""
    memset(target, 0xFF, n * sizeof(int64_t))


cdef inline void common(int64_t* target, const int64_t* other, Py_ssize_t n) noexcept nogil:
    """``target &= other``."""
    cdef Py_ssize_t i
    for i in range(n):
        target[i] &= other[i]


cdef void rule_out(Ensemble* e, int64_t* left, Py_ssize_t column, double value) noexcept nogil:
    """Rule out the leaves that a column's value does, in the words of all trees."""
    cdef Span* of
    cdef int64_t stop, n, half, reached, k, flagged
    if column >= e.n_spans:  # the model does not know it
        return
    of = &e.spans[column]
    flagged = of.flagged
    if value == value:
        stop, n = of.begin, flagged - of.begin  # the first node whose threshold is not below the value
        while n > 1:
            half = n >> 1
            stop += half * (e.limits[stop + half - 1] < value)
            n -= half
        if n == 1:
            stop += e.limits[stop] < value
        reached = (stop - of.begin) // e.head.interval
        if reached > 0:
            common(left, e.marks + (of.mark + reached - 1) * e.n_shallow, e.n_shallow)
        for k in range(of.begin + reached * e.head.interval, stop):
            left[e.owners[k].tree] &= e.stays[k]
    else:
        flagged = of.begin
    for k in range(flagged, of.end):
        if goes_right_by_flags(e, <int64_t> e.owners[k].column, e.limits[k], value):
            left[e.owners[k].tree] &= e.stays[k]


cdef void leaf_totals(
    const int64_t* words, Py_ssize_t width, const uint64_t* firsts, const floating* leaves, Py_ssize_t begin, Py_ssize_t end, floating start, double* out
) noexcept nogil:
    """The sums of a run of trees for ``TOGETHER`` rows of words, in the trees' order and the leaves' precision."""
    cdef const int64_t* one = words
    cdef const int64_t* two = words + width
    cdef const int64_t* three = words + 2 * width
    cdef const int64_t* four = words + 3 * width
    cdef floating a = start, b = start, c = start, d = start
    cdef uint64_t leaf
    cdef Py_ssize_t tree
    for tree in range(begin, end):
        leaf = firsts[tree]
        a += leaves[leaf + lowest_bit(<uint64_t> one[tree])]
        b += leaves[leaf + lowest_bit(<uint64_t> two[tree])]
        c += leaves[leaf + lowest_bit(<uint64_t> three[tree])]
        d += leaves[leaf + lowest_bit(<uint64_t> four[tree])]
    out[0], out[1], out[2], out[3] = a, b, c, d


cdef void word_sums(Ensemble* e, int64_t* words, Py_ssize_t n, double* sums) noexcept nogil:
    """Sums over the trees, outputs × n rows; there are ``TOGETHER`` rows of words or more."""
    cdef Py_ssize_t i, c, block, first, run, r, o, trees = e.n_shallow, width = max(e.n_leaves, e.n_narrow)
    cdef double totals[4]
    start_sums(e, sums, n)
    for c in range(n, TOGETHER):
        fill(words + c * trees, trees)
    for block in range((n + TOGETHER - 1) // TOGETHER):
        first = max(min(block * TOGETHER, n - TOGETHER), 0)
        for run in range(e.n_runs):
            for i in range(width):
                o = e.runs[run].output + i
                if e.head.single:
                    leaf_totals(
                        words + first * trees, trees, e.firsts, e.narrow + i * e.narrow_leaves, e.runs[run].begin, e.runs[run].end,
                        <float> e.base[o], totals,
                    )
                else:
                    leaf_totals(
                        words + first * trees, trees, e.firsts, e.leaves + i * e.leaf_width, e.runs[run].begin, e.runs[run].end, e.base[o], totals
                    )
                for r in range(min(n, <Py_ssize_t> TOGETHER)):
                    sums[o * n + first + r] = totals[r]


cdef void own_words(Ensemble* e, Plan* p, const double* x, int64_t* of_player, int64_t* shared) noexcept nogil:
    """What the record's values leave: by player, and of the columns that are no player's."""
    cdef Py_ssize_t i, player, trees = e.n_shallow
    fill(shared, trees)
    for i in range(p.n_outside):
        rule_out(e, shared, p.outside[i], x[p.outside[i]])
    for player in range(p.players):
        fill(of_player + player * trees, trees)
        for i in range(p.starts[player], p.starts[player + 1]):
            rule_out(e, of_player + player * trees, p.columns[i], x[p.columns[i]])


cdef void replaced_words(
    Ensemble* e, Plan* p, const double* copies, const int64_t* of_player, const int64_t* shared, int64_t* around, int64_t* left
) noexcept nogil:
    """What is left of a record and of iPFI's copies of it."""
    cdef Py_ssize_t player, i, trees = e.n_shallow
    cdef int64_t c
    memcpy(around, shared, trees * sizeof(int64_t))
    for player in range(p.players - 1, -1, -1):  # the players after this one
        for c in range(1 + player * p.m, 1 + (player + 1) * p.m):
            memcpy(left + c * trees, around, trees * sizeof(int64_t))
        common(around, of_player + player * trees, trees)
    memcpy(left, around, trees * sizeof(int64_t))
    fill(around, trees)
    for player in range(p.players if p.m > 0 else 0):  # those before it, and its own values
        for c in range(1 + player * p.m, 1 + (player + 1) * p.m):
            common(left + c * trees, around, trees)
            for i in range(p.starts[player], p.starts[player + 1]):
                rule_out(e, left + c * trees, p.columns[i], copies[c * p.width + p.columns[i]])
        common(around, of_player + player * trees, trees)


cdef void joining_words(
    Ensemble* e, Plan* p, const double* copies, const int64_t* of_player, const int64_t* shared, int64_t* around, int64_t* left
) noexcept nogil:
    """What is left of iSAGE's copies: of the record's values of the players that have joined, and of the drawn row's of the others."""
    cdef Py_ssize_t place, i, trees = e.n_shallow
    cdef int64_t k, player, c
    for k in range(p.sage_m):
        memcpy(around, shared, trees * sizeof(int64_t))
        for place in range(p.players - 1, p.first - 1, -1):
            player = p.order[place]
            for i in range(p.starts[player], p.starts[player + 1]):
                rule_out(e, around, p.columns[i], copies[k * p.width + p.columns[i]])
            memcpy(left + ((place - p.first) * p.sage_m + k) * trees, around, trees * sizeof(int64_t))
    fill(around, trees)
    for place in range(p.players):
        for c in range((place - p.first) * p.sage_m, (place - p.first + 1) * p.sage_m):
            if c >= 0:
                common(left + c * trees, around, trees)
        common(around, of_player + p.order[place] * trees, trees)


cdef void predict_ensemble(
    const int64_t* table, const double* rows, Py_ssize_t n, Py_ssize_t width, double* out, bint shallow
) noexcept nogil:
    """Predictions of n rows by walks or, of a shallow ensemble, by sets of bits: rows × numbers of a prediction."""
    cdef Ensemble e
    cdef Py_ssize_t first = 0, count, r, column
    cdef int64_t* words
    cdef double* sums
    cdef Segment* segments
    open_ensemble(table, &e)
    if not shallow:
        sums = <double*> malloc(n * (e.outputs + 1) * sizeof(double))
        segments = <Segment*> malloc(n * sizeof(Segment))
        row_sums(&e, rows, n, width, sums, sums + n * e.outputs, segments)
        finish(&e, sums, n, out)
        free(segments)
        free(sums)
        return
    words = <int64_t*> malloc(TOGETHER * e.n_shallow * sizeof(int64_t))
    sums = <double*> malloc(TOGETHER * e.outputs * sizeof(double))
    while first < n:
        count = min(<Py_ssize_t> TOGETHER, n - first)
        for r in range(count):
            fill(words + r * e.n_shallow, e.n_shallow)
            for column in range(e.n_spans):
                rule_out(&e, words + r * e.n_shallow, column, rows[(first + r) * width + column])
        word_sums(&e, words, count, sums)
        finish(&e, sums, count, out + first * e.head.classes)
        first += count
    free(words)
    free(sums)


cdef double* predict_ensemble_copies(const int64_t* table, Plan* p, const double* x, bint shallow, Py_ssize_t* width) noexcept nogil:
    """Draw, and predict the record and its copies, rows × ``width``, for the caller to free: by walks or, of a shallow ensemble, by sets of bits.

    By bits: the leaves that are left of a copy are those that each of its columns leaves. So the record's columns are dealt with once, those
    that a copy has from elsewhere for the copy, and the rest is what the columns before and those after have in common.
    """
    cdef Ensemble e
    cdef Py_ssize_t joining, most, n, trees
    cdef double* copies = draw_copies(p, x)
    cdef double* out
    cdef double* sums
    cdef Segment* segments
    cdef int64_t* words
    open_ensemble(table, &e)
    n, trees, joining = e.head.classes, e.n_shallow, p.n_predicted - p.copies
    width[0], most = n, max(p.copies, joining)
    out = <double*> malloc(p.n_predicted * n * sizeof(double))
    sums = <double*> malloc(most * (e.outputs + 1) * sizeof(double))
    if shallow:
        words = <int64_t*> malloc((p.players + 2 + max(most, <Py_ssize_t> TOGETHER)) * trees * sizeof(int64_t))
        own_words(&e, p, x, words + 2 * trees, words)
        replaced_words(&e, p, copies, words + 2 * trees, words, words + trees, words + (p.players + 2) * trees)
        word_sums(&e, words + (p.players + 2) * trees, p.copies, sums)
        finish(&e, sums, p.copies, out)
        if joining > 0:
            joining_words(
                &e, p, copies + p.copies * p.width, words + 2 * trees, words, words + trees, words + (p.players + 2) * trees
            )
            word_sums(&e, words + (p.players + 2) * trees, joining, sums)
            finish(&e, sums, joining, out + p.copies * n)
        free(words)
    else:
        segments = <Segment*> malloc((most + 1) * sizeof(Segment))
        replaced_sums(&e, p, copies, sums, sums + most * e.outputs, segments)
        finish(&e, sums, p.copies, out)
        if joining > 0:
            joining_sums(&e, p, x, copies + p.copies * p.width, sums, sums + most * e.outputs, segments)
            finish(&e, sums, joining, out + p.copies * n)
        free(segments)
    free(copies)
    free(sums)
    return out
