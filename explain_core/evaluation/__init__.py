"""Evaluators: a model's predictions for the perturbed copies of one record."""
