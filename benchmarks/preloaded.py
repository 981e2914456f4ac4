"""What forked workers and commands begin with: everything imported."""

import explain_sidecar.cli
import explain_sidecar.fold.partition
import explain_sidecar.worker

__all__ = ["explain_sidecar"]
