"""Fill numba's cache while the image is built."""

import os

from service.run import PINNED

os.environ.update(PINNED)

from river import tree

from explain_core.evaluation.choice import warm
from explain_core.models import wrap

warm(wrap(tree.HoeffdingAdaptiveTreeClassifier(), "classification"))
warm(wrap(tree.HoeffdingAdaptiveTreeRegressor(), "regression"))
