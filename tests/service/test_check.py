"""What ``check`` looks at without a broker."""

import sys

from explain_sidecar.commands.check import join_store


def test_check_says_that_the_store_of_the_join_is_missing_before_join_does(monkeypatch):
    assert join_store().ok is True
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    found = join_store()
    assert found.ok is False and "install explanation-sidecar[join]" in found.detail
