"""What the papers report, done again: ``python -m experiments.<name> --help``. EXPERIMENTS.md states the figures."""
