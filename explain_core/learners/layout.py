"""How a tree learner's state lies in arrays: slots of the table, columns of the arrays, and pools of rows.

Nodes, leaves, observers and cells are rows of pools and refer to each other by index, −1 for none. A leaf has a chain of
observers, one for each feature that it has seen. A numeric observer has a chain of cells, one for each class; a nominal one has a chain
of classes, each with a chain of categories. What a leaf has not seen takes no room. Chains keep the order in which river's
dictionaries were filled, which is that of its sums. A row that is given back is zero, and the next that is taken.
"""

from __future__ import annotations

SLOTS = (
    "head", "numbers", "nodes", "splits", "leaves", "weights", "stats", "classes", "observers", "cells", "links",
    "trees", "seen", "order", "columns", "ranks", "generator", "members", "accuracy", "detectors", "windows", "ends",
    "buckets", "chains", "errors", "alternates", "counters", "models", "norms", "guesses",
    "free_nodes", "free_leaves", "free_observers", "free_cells", "free_buckets",
)  # fmt: skip

# numbers: the model's parameters
(
    GRACE, DELTA, TAU, SHARE, FRACTION, DEPTH_LIMIT, N_SPLITS, MANNER, NB_THRESHOLD, TWO, HALF, CRITERION, BINARY,
    PREPRUNE, STOP, LEAF_LIMIT, RATE, WEIGHTED, WARNING_ON, DRIFT_ON, BOOTSTRAP, DRIFT_WINDOW, SWITCH, COMPARES,
    SCALE, RADIUS, LEAST, DECAY, LEAF_RATE, LEAF_INTERCEPT_RATE, LEAF_L2, LEAF_CLIP, LEAF_LOSS, AGGREGATION, METRIC, N_NUMBERS,
) = range(36)  # fmt: skip
MAJORITY, BAYES, BETTER, TARGET_MEAN, TARGET_MODEL, TARGET_ADAPTIVE = range(6)
"""What a leaf predicts: the majority, naive Bayes, the better of the two so far; the same of the target's mean and a linear regression."""
INFO_GAIN, GINI, HELLINGER = range(3)

# head: counts, and how many rows of each pool a leaf may take to learn a record
N_CLASSES, N_TREES, POSITION, POSITIVE, NEGATIVE, N_FEATURES = range(6)
NEED_NODES, NEED_OBSERVERS, NEED_CELLS, NEED_BUCKETS, POOLS = range(6, 11)
# from POOLS on two for each pool: rows in use or free, how many are free
NODE_POOL, LEAF_POOL, OBSERVER_POOL, CELL_POOL, BUCKET_POOL = range(POOLS, POOLS + 10, 2)
N_HEAD = POOLS + 10

# nodes: integers; splits: doubles
KIND, COLUMN, LEFT, RIGHT, NEXT, LEAF_OF, DEPTH, N_NODE = range(8)
"""Kind of the node, feature it asks for, its first and last child, the next child of its parent, its leaf, its depth."""
THRESHOLD, KEY = range(2)
"""The threshold or category of a split; the category for which its parent's multiway split goes here."""
LEAF, THRESHOLDED, EQUAL, MULTIWAY = range(4)
"""Kinds of nodes."""

# leaves: integers, then the features that the leaf samples; weights: doubles
ACTIVE, COUNT, FIRST, LAST, SAMPLED, NOMINALS, N_LEAF = range(7)
MC_RIGHT, NB_RIGHT, ATTEMPTED = range(3)
# those of a regression tree, whose models are a weight for each column
MEAN_ERROR, MODEL_ERROR, _, TARGET, TARGET_SQUARES, INTERCEPT = range(6)

# observers
FEATURE, CATEGORICAL, HEAD_CELL, NEXT_OBSERVER = range(4)
# cells: doubles; links: integers
WEIGHT, MEAN, SQUARES, LOWEST, HIGHEST, HALF_LOG = range(6)
CATEGORY = MEAN
CLASS, NEXT_CELL, VALUES = range(3)
# those of a regression tree: the observed point, slot or category, and a slot's mean; a search tree of points, a chain of categories
POINT, PLACE = LOWEST, HIGHEST
PARENT, ABOVE, BELOW = CLASS, NEXT_CELL, VALUES

# columns: whether the feature is nominal, the column in this place in the order of the names, where its ranks start, and their number
NOMINAL, BY_NAME, START, SIZE = range(4)

# trees
ROOT, INACTIVE, STOPPED, N_LEAVES, N_TREE = range(5)


# members: a tree of a forest and the one in its background; counters: alternates of an adaptive tree
FOREGROUND, BACKGROUND = range(2)
MADE, SWITCHED, PRUNED = range(3)

# detectors: ADWIN's parameters; windows, ends: a detector's doubles and integers; chains: integers of a row of buckets
SIGNIFICANCE, CLOCK, MOST_BUCKETS, SHORTEST, PATIENCE, N_DETECTOR = range(6)
TOTAL, VARIANCE, WIDTH, N_WINDOW = range(4)
TICK, NEWEST, OLDEST, DRIFTED, N_END = range(5)
BUCKET_COUNT, NEWER, OLDER, N_CHAIN = range(4)
