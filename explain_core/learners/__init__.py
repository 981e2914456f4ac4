"""Models that learn in flat arrays: what learning writes, explaining reads and a snapshot stores is one copy."""
