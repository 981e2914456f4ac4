"""Fill numba's cache while the image is built."""

import os

from service.run import PINNED

os.environ.update(PINNED)

from river import linear_model, naive_bayes, tree

from explain_core.evaluation.choice import warm
from explain_core.models import wrap

# One model of each evaluator and task: trees, linear, and any other.
for model in (tree.HoeffdingTreeClassifier, linear_model.LogisticRegression, naive_bayes.GaussianNB):
    warm(wrap(model(), "classification"))
for model in (tree.HoeffdingTreeRegressor, linear_model.LinearRegression):
    warm(wrap(model(), "regression"))
