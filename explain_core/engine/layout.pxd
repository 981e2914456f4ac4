# How a tree learner's state lies in arrays: the rows of the arrays that explain_core.learners.layout names, as structs.
#
# Nodes, leaves, observers and cells are rows of pools and refer to each other by index, −1 for none. A leaf has a chain of observers,
# one for each feature that it has seen. A numeric observer has a chain of cells, one for each class; a nominal one has a chain of
# classes, each with a chain of categories. Chains keep the order in which river's dictionaries were filled, which is that of its sums.
# A row that is given back is zero, and the next that is taken.

from libc.stdint cimport int8_t, int64_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

cdef enum:  # NodeKind
    LEAF
    THRESHOLDED
    EQUAL
    MULTIWAY

cdef enum:  # Manner: what a leaf predicts
    MAJORITY
    BAYES
    BETTER  # of the two so far
    TARGET_MEAN
    TARGET_MODEL
    TARGET_ADAPTIVE

cdef enum:  # Criterion
    INFO_GAIN
    GINI
    HELLINGER

cdef enum:  # PoolName
    NODE_POOL
    LEAF_POOL
    OBSERVER_POOL
    CELL_POOL
    BUCKET_POOL
    N_POOLS

cdef extern from *:
    """
    static const int INTEGERS[5] = {2, 4, 8, 10, 23};
    """
    const int* INTEGERS  # of each pool the slot of an array of integers: nodes, leaves, observers, links and chains


cdef struct Pool:
    int64_t used  # rows that were ever taken
    int64_t free  # of them free again


cdef struct Head:
    int64_t n_classes
    int64_t n_trees
    int64_t position  # of the generator in its words
    int64_t positive  # codes of the classes 1 and 0
    int64_t negative
    int64_t n_features  # that a leaf samples; 0 for all
    int64_t need_nodes  # rows that a leaf may take to learn a record
    int64_t need_observers
    int64_t need_cells
    int64_t need_buckets
    Pool pools[5]


cdef struct Parameters:
    double grace, delta, tau, share, fraction, depth_limit, n_splits, manner, nb_threshold, two, half, criterion, binary
    double preprune, stop, leaf_limit, rate, weighted, warning_on, drift_on, bootstrap, drift_window, switch_at, compares
    double scale, radius, least, decay, leaf_rate, leaf_intercept_rate, leaf_l2, leaf_clip, leaf_loss, aggregation, metric


cdef struct Node:
    int64_t kind
    int64_t column  # of the feature that a branch asks for
    int64_t left  # its first child
    int64_t right  # its last child
    int64_t next  # the next child of its parent
    int64_t leaf
    int64_t depth


cdef struct Split:
    double threshold  # or category
    double key  # the category for which its parent's multiway split goes here


cdef struct Leaf:  # then the features that it samples
    int64_t active
    int64_t count  # of classes
    int64_t first  # observer
    int64_t last
    int64_t sampled  # features
    int64_t nominals  # nominal observers


cdef struct Hits:  # a classification leaf's doubles
    double majority  # weight of the records that the majority was right about
    double bayes  # and naive Bayes
    double attempted  # the leaf's weight when it last tried to split


cdef struct Target:  # a regression leaf's doubles; the target's weight is in stats
    double mean_error
    double model_error
    double attempted
    double mean
    double squares
    double intercept  # of its linear model


cdef struct Observer:
    int64_t feature
    int64_t categorical
    int64_t cells  # the first
    int64_t next


cdef struct Cell:  # of a class
    double weight
    double mean
    double squares
    double lowest
    double highest
    double half_log  # of the variance


cdef struct Category:
    double weight
    double value


cdef struct Point:  # of a regression tree's observer
    double weight
    double mean
    double squares
    double point  # the observed point, slot or category
    double place  # a slot's mean


cdef struct Link:  # of a class's cell
    int64_t of  # the class
    int64_t next
    int64_t values  # the first category


cdef struct Fork:  # of a point: a search tree of numbers, a chain of categories
    int64_t parent
    int64_t above
    int64_t below


cdef struct Column:
    int64_t nominal
    int64_t by_name  # the column in this place in the order of the names
    int64_t start  # of its ranks
    int64_t size


cdef struct Tree:
    int64_t root
    int64_t inactive
    int64_t stopped
    int64_t leaves


cdef struct Member:  # of a forest
    int64_t foreground
    int64_t background


cdef struct Accuracy:  # of a member's class predictions, or its mean error and the number of its predictions
    double right
    double all


cdef struct Detector:
    double significance
    double clock
    double most_buckets
    double shortest
    double patience


cdef struct Window:  # of a detector
    double total
    double variance
    double width


cdef struct Ends:  # of a detector's window
    int64_t tick
    int64_t newest
    int64_t oldest
    int64_t drifted


cdef struct Chain:  # of a row of buckets
    int64_t count
    int64_t newer
    int64_t older


cdef struct Errors:  # of an adaptive tree's node; squares in regressions alone
    double count
    double mean
    double squares


cdef struct Variance:  # running: weight, mean and sum of squares
    double n
    double mean
    double squares


cdef struct Trees:
    # The arrays, in the order of ``explain_core.learners.layout.SLOTS``.
    Head* head
    Parameters* of
    Node* nodes
    Split* splits
    int64_t* leaves
    double* doubles  # of leaves: Hits or Target
    double* stats
    int64_t* classes  # of a leaf, then whether their weights are whole
    Observer* observers
    double* cells
    int64_t* links
    Tree* trees
    int8_t* seen
    int64_t* order
    Column* columns
    int64_t* ranks
    uint32_t* words
    Member* members
    Accuracy* accuracy
    Detector* detectors
    Window* windows
    Ends* ends
    double* buckets
    Chain* chains
    double* errors
    int64_t* alternates
    int64_t* counters
    double* models
    Variance* norms
    int64_t* guesses  # of a forest's members: the class that each takes the record at hand for
    int64_t* free[5]
    # Sizes, and what else follows.
    int64_t rooms[5]
    int64_t* integers[5]  # of each pool: zero in free rows
    Py_ssize_t widths[5]
    Py_ssize_t size  # room for classes
    Py_ssize_t leaf_width, doubles_width, cell_width, half  # half: buckets of a row
    Py_ssize_t error_width, model_width
    Py_ssize_t n_order, n_columns, n_members, n_trees, n_windows
    bint adaptive  # an adaptive tree
    bint regression
    # Scratch of as many entries as there is room for classes.
    double* votes
    double* parts
    double* dense
    int64_t* places


cdef inline void* at_slot(const int64_t* table, int slot) noexcept nogil:
    return <void*> table[3 * slot]


cdef inline int64_t rows_of(const int64_t* table, int slot) noexcept nogil:
    return table[3 * slot + 1]


cdef inline int64_t width_of(const int64_t* table, int slot) noexcept nogil:
    return table[3 * slot + 2]


cdef inline void point_to_arrays(void* to, const int64_t* table, int n) noexcept nogil:
    """Let the n pointers that a struct begins with point to the first n arrays of a table."""
    cdef int slot
    for slot in range(n):
        memcpy(<char*> to + slot * sizeof(void*), table + 3 * slot, sizeof(void*))


cdef inline void open_trees(const int64_t* table, Trees* t) noexcept nogil:
    """The arrays behind a table, and their sizes."""
    cdef int pool
    point_to_arrays(t, table, 35)
    for pool in range(N_POOLS):
        t.integers[pool] = <int64_t*> at_slot(table, INTEGERS[pool])
        t.rooms[pool], t.widths[pool] = rows_of(table, INTEGERS[pool]), width_of(table, INTEGERS[pool])
    t.size, t.leaf_width, t.doubles_width = width_of(table, 6), width_of(table, 4), width_of(table, 5)
    t.cell_width, t.half = width_of(table, 9), width_of(table, 22) // 2
    t.error_width, t.model_width = width_of(table, 24), width_of(table, 27)
    t.n_order, t.n_columns, t.n_members = width_of(table, 13), rows_of(table, 14), rows_of(table, 17)
    t.n_trees, t.n_windows = rows_of(table, 11), rows_of(table, 21)
    t.adaptive = rows_of(table, 25) > 0
    t.regression = t.of.manner >= TARGET_MEAN
    t.votes = NULL


cdef inline void get_scratch(Trees* t) noexcept nogil:
    t.votes = <double*> malloc(4 * t.size * sizeof(double))
    t.parts, t.dense = t.votes + t.size, t.votes + 2 * t.size
    t.places = <int64_t*> (t.votes + 3 * t.size)


cdef inline void give_scratch(Trees* t) noexcept nogil:
    free(t.votes)


cdef inline Leaf* leaf_at(Trees* t, int64_t leaf) noexcept nogil:
    return <Leaf*> (t.leaves + leaf * t.leaf_width)


cdef inline int64_t* drawn_at(Trees* t, int64_t leaf) noexcept nogil:
    """The features that a leaf samples."""
    return t.leaves + leaf * t.leaf_width + 6


cdef inline Hits* hits_at(Trees* t, int64_t leaf) noexcept nogil:
    return <Hits*> (t.doubles + leaf * t.doubles_width)


cdef inline Target* target_at(Trees* t, int64_t leaf) noexcept nogil:
    return <Target*> (t.doubles + leaf * t.doubles_width)


cdef inline double* stats_at(Trees* t, int64_t leaf) noexcept nogil:
    return t.stats + leaf * t.size


cdef inline int64_t* classes_at(Trees* t, int64_t leaf) noexcept nogil:
    return t.classes + leaf * 2 * t.size


cdef inline Cell* cell_at(Trees* t, int64_t cell) noexcept nogil:
    return <Cell*> (t.cells + cell * t.cell_width)


cdef inline Category* category_at(Trees* t, int64_t cell) noexcept nogil:
    return <Category*> (t.cells + cell * t.cell_width)


cdef inline Point* point_at(Trees* t, int64_t cell) noexcept nogil:
    return <Point*> (t.cells + cell * t.cell_width)


cdef inline Link* link_at(Trees* t, int64_t cell) noexcept nogil:
    return <Link*> (t.links + cell * 3)


cdef inline Fork* fork_at(Trees* t, int64_t cell) noexcept nogil:
    return <Fork*> (t.links + cell * 3)


cdef inline Errors* errors_at(Trees* t, int64_t node) noexcept nogil:
    return <Errors*> (t.errors + node * t.error_width)


cdef inline int64_t take(Trees* t, int pool) noexcept nogil:
    """A row of a pool, of the free ones the last that was given back; the caller has seen that there is one."""
    cdef Pool* of = &t.head.pools[pool]
    if of.free > 0:
        of.free -= 1
        return t.free[pool][of.free]
    of.used += 1
    return of.used - 1


cdef inline void give(Trees* t, int pool, int64_t row) noexcept nogil:
    """Give a row back to its pool; the caller has made its doubles zero."""
    cdef Pool* of = &t.head.pools[pool]
    memset(t.integers[pool] + row * t.widths[pool], 0, t.widths[pool] * sizeof(int64_t))
    t.free[pool][of.free] = row
    of.free += 1


cdef inline bint lacks(Trees* t, int pool, int64_t rows) noexcept nogil:
    """Whether fewer rows than that can be taken."""
    return t.rooms[pool] - t.head.pools[pool].used + t.head.pools[pool].free < rows


cdef inline bint short_of_rows(Trees* t, int64_t leaves) noexcept nogil:
    """Whether there may be too few rows for so many leaves to learn one record."""
    return (
        lacks(t, NODE_POOL, leaves * t.head.need_nodes)
        or lacks(t, LEAF_POOL, leaves * t.head.need_nodes)
        or lacks(t, OBSERVER_POOL, leaves * t.head.need_observers)
        or lacks(t, CELL_POOL, leaves * t.head.need_cells)
        or lacks(t, BUCKET_POOL, leaves * t.head.need_buckets)
    )
