"""What forked workers and commands begin with: everything imported, and the kernels of the default model at hand."""

import explain_sidecar.cli
import explain_sidecar.worker
from explain_sidecar.settings import Settings
from explain_sidecar.warm import warm_up

warm_up(Settings())

__all__ = ["explain_sidecar"]
