"""Estimators of feature importance."""
