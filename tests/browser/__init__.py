"""Visits to the dashboard in a real browser."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"


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
