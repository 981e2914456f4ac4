"""How a linear learner's state lies in arrays: columns of ``head`` and ``columns``, and what their numbers mean."""

N_COLUMNS, N_LABELS, LINK, LOSS, RANKED, ZEROS, WITH_STD, HAS_TARGET, N_RANKED, IMPLICIT, N_HEAD = range(11)
"""Of ``head``. RANKED: the order in which categories were learnt counts; ZEROS: so do those that a record has not. IMPLICIT: see ``implicit``."""

KIND, PLACE, ROOM = range(3)
"""Of a column: what becomes of it, where its keys begin among the places, and for how many categories there is room."""

IGNORED, NUMBER, SCALED, CATEGORY = range(4)
SIGMOID, IDENTITY, SOFTMAX = range(3)
LOG, SQUARED, ABSOLUTE = range(3)
