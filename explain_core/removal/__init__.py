"""How features are taken from a record."""
