"""Each experiment runs from its command to its table with ``--quick``; the figures are those of the full size."""

import importlib

import pytest
from click.testing import CliRunner

COMMANDS = {
    "agreement": 5,
    "alarms": 18,
    "approximation": 2,
    "challenger": 13,
    "coverage": 4,
    "drivers": 2,
    "flights": 3,
    "ground_truth": 1,
    "headlines": 13,
    "incremental_drift": 4,
    "incremental_reasons": 32,
    "markers": 4,
    "named_models": 12,
    "removal": 9,
    "seasons": 40,
    "bands": 10,
    "bands_real": 4,
    "small_print": 18,
    "two_draws": 4,
    "variance": 10,
}
"""Experiments and the rows of their tables."""


@pytest.mark.filterwarnings("ignore")  # of the packages that agreement compares with
@pytest.mark.parametrize("name", COMMANDS)
def test_the_experiment_prints_its_table_when_it_is_run_quickly(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    result = CliRunner().invoke(importlib.import_module(f"experiments.{name}").main, ["--quick"])
    assert result.exit_code == 0, result.output
    assert sum(line.startswith("│") for line in result.stdout.splitlines()) == COMMANDS[name]
