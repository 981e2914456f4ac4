"""The browser of the tests: Chromium as an npm package carries it, so that no machine has to bring one."""

import os
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Playwright

UNPACKED = Path(__file__).parent / "node_modules" / ".unpacked"
AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"


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


class Visit:
    """A page of the dashboard that has been opened, and everything in it that should not have been."""

    def __init__(self, browser: Browser, where: str, fragment: str = "", **context: Any) -> None:
        self.page: Page = browser.new_page(**context)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on(
            "console",
            lambda entry: self.complaints.append(entry.text) if entry.type in ("error", "warning") else None,
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"{where}#{fragment}")
        self.page.wait_for_selector("body[data-updates]:not([data-waiting])")

    def end(self) -> None:
        """Nothing was complained about, and no text of a topic became an element."""
        assert self.complaints == []
        assert "owned" not in self.page.title() and self.page.locator("img, main b").count() == 0
        self.page.close()
