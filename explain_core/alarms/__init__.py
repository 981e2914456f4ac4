"""Alarms: when the mean of a loss, or of an importance's increments, changed, with a stated rate of false alarms."""

BLOCK = 50
"""Records of a block: what the detector sees at a time."""
WARM_UP = 1_000
"""Records, by default, from which only centre and spread are taken, ..."""
BASELINE = 1_000
"""... and records that are, by default, before the onset of a change at least."""
