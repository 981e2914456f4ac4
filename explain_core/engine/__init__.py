"""Arithmetic that is compiled ahead of time: learners, explanations, smoothing, alarms, trees of drift windows.

Functions take the arrays that Python objects own, and change them in place. ``building.py`` says how it is compiled.
"""
