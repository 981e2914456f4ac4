"""What forked workers and commands begin with: everything imported, and the kernels of the default model at hand."""

import service.cli
import service.worker
from service.settings import Settings
from service.warm import warm_up

warm_up(Settings())

__all__ = ["service"]
