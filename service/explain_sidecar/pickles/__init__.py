"""A foreign model's state as pickles: the one thing that cannot be data, read by an unpickler with an allow-list."""
