"""guided.py is no test: it needs atheris, which `make fuzz-guided` installs."""

collect_ignore = ["guided.py"]
