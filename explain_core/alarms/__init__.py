"""Alarms: when the mean of a loss, or of an importance's increments, changed, with a stated rate of false alarms."""
