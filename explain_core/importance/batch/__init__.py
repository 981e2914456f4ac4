"""Importances of a data set, recomputed from scratch: what the incremental estimators are held against."""
