"""Settings that hold for every test."""

import os

from hypothesis import settings

# The same examples in every run of CI; no deadline, for the machines are noisy.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
