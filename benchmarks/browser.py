"""The browser of tests and benchmarks: Chromium as an npm package carries it, so that no machine has to bring one."""

import os
from pathlib import Path

from playwright.sync_api import Browser, Playwright

UNPACKED = Path(__file__).parents[1] / "tests" / "browser" / "node_modules" / ".unpacked"


def launch(playwright: Playwright) -> Browser:
    """A headless Chromium. Its sandbox needs what few machines grant a program that no system package installed."""
    assert (UNPACKED / "chromium").exists(), "the tests' Chromium is missing: make setup brings it"
    return playwright.chromium.launch(
        executable_path=UNPACKED / "chromium",
        args=["--no-sandbox"],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(UNPACKED / "al2023" / "lib"),
            "FONTCONFIG_PATH": str(UNPACKED / "fonts"),
            "LC_ALL": "en_US.UTF-8",  # it makes of POSIX a language that its own Intl refuses
        },
    )
