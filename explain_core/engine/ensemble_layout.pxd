# How a trained ensemble of trees lies in arrays: the rows of the arrays that explain_core.artefacts.layout names, as structs, and how a node decides.

from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from explain_core.engine.layout cimport point_to_arrays, rows_of, width_of

cdef extern from *:
    """
    #define ZERO ((double) 1e-35f)
    """
    const double ZERO  # the largest number that LightGBM takes for zero

cdef enum:  # flags of a node: where a missing value goes, whether it asks for a category, what is missing
    FLAG_BITS = 4
    DEFAULT_LEFT = 1
    CATEGORICAL = 2
    NAN_IS_ZERO = 4
    ZERO_IS_MISSING = 8

cdef enum:  # links, as explain_core.artefacts.layout.LINKS names them
    IDENTITY
    SIGMOID
    SOFTMAX
    EACH_SIGMOID
    EXP
    MEAN
    SHARE
    STEP
    SQUARE
    LOG1P_EXP
    COMPLEMENT

cdef struct Head:
    int64_t link
    int64_t single  # sums are those of 32-bit floats
    int64_t classes  # numbers of a prediction
    int64_t interval


cdef struct Node:
    # 16 bytes: it is half of a walk's time to fetch them. ``x ≤ threshold`` goes left.
    double threshold  # or the row of ``sets`` whose categories go left
    int32_t column  # the feature, then flags; −1 for a leaf
    int32_t child  # the left one, which the right one follows; or the row of ``leaves``


cdef struct Set:
    int32_t word  # the first of its words
    int32_t words


cdef struct Tree:
    int32_t root
    int32_t output  # the first of those that its leaves add to


cdef struct Span:  # of the nodes of a column in a shallow ensemble
    int64_t begin
    int64_t flagged  # the first whose flags decide; those before it are sorted by threshold
    int64_t end
    int64_t mark  # its first row of ``marks``: the words once ``interval`` of its nodes have sent to the right, twice as many, …


cdef struct Owner:  # of such a node
    uint32_t tree
    uint32_t column  # and flags


cdef struct Run:  # of trees that add to the same outputs
    int64_t begin
    int64_t output
    int64_t end


cdef struct Ensemble:
    # The arrays, in the order of ``explain_core.artefacts.layout.SLOTS``.
    Head* head
    double* leaves
    double* base
    double* number
    Set* sets
    uint32_t* words
    Node* nodes
    Tree* trees
    Span* spans
    double* limits
    Owner* owners
    int64_t* stays
    int64_t* marks
    uint64_t* firsts
    Run* runs
    float* narrow
    # Sizes.
    Py_ssize_t outputs, n_nodes, n_trees, leaf_width, n_spans, n_shallow, n_runs, n_leaves, n_narrow, narrow_leaves


cdef inline void open_ensemble(const int64_t* table, Ensemble* e) noexcept nogil:
    """The arrays behind a table."""
    point_to_arrays(e, table, 16)
    e.outputs, e.n_nodes, e.n_trees = width_of(table, 2), rows_of(table, 6), rows_of(table, 7)
    e.n_leaves, e.leaf_width = rows_of(table, 1), width_of(table, 1)
    e.n_spans, e.n_shallow, e.n_runs = rows_of(table, 8), width_of(table, 13), rows_of(table, 14)
    e.n_narrow, e.narrow_leaves = rows_of(table, 15), width_of(table, 15)


cdef inline bint goes_right_by_flags(Ensemble* e, int64_t column, double threshold, double value) noexcept nogil:
    """``goes_right`` of missing values, categories, and zeros that may be missing: rare, and long."""
    cdef int64_t code
    cdef Set* of
    if value != value:
        if column & NAN_IS_ZERO == 0:
            return column & DEFAULT_LEFT == 0
        value = 0.0
    if column & CATEGORICAL != 0:
        of = &e.sets[<int64_t> threshold]
        if not -1.0 < value < 32.0 * of.words:
            return True
        code = <int64_t> value
        return (e.words[of.word + code // 32] >> (code % 32)) & 1 == 0
    if column & ZERO_IS_MISSING != 0 and fabs(value) <= ZERO:
        return column & DEFAULT_LEFT == 0
    return value > threshold


cdef inline bint goes_right(Ensemble* e, int64_t column, double threshold, double value) noexcept nogil:
    """Whether a value goes to the right child. Short, so that it stands in the loops that call it."""
    if column & (CATEGORICAL | ZERO_IS_MISSING) == 0 and value == value:
        return value > threshold
    return goes_right_by_flags(e, column, threshold, value)


cdef inline int64_t leaf_below(Ensemble* e, int64_t node, const double* row) noexcept nogil:
    """The row of ``leaves`` that a row comes to from a node."""
    cdef int64_t column = e.nodes[node].column
    while column >= 0:
        node = e.nodes[node].child + goes_right(e, column, e.nodes[node].threshold, row[column >> FLAG_BITS])
        column = e.nodes[node].column
    return e.nodes[node].child
