"""The commands, settings and programs that the documentation shows."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    *(
        "README.md",
        "EXPERIMENTS.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "explain_client/README.md",
        "explain_core/README.md",
    ),
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
]


@dataclass(frozen=True)
class Block:
    """A fenced block, and the heading that it is under."""

    page: str
    heading: str
    language: str
    text: str

    @property
    def name(self) -> str | None:
        """The file that the block is to be, which its first line names: ``# sidecar.yaml``."""
        found = re.match(r"# ([\w.-]+\.(?:yaml|py))\b", self.text)
        return found.group(1) if found else None

    def commands(self) -> Iterator[str]:
        """The lines of a shell's block, those that go on in the next one joined."""
        for line in self.text.replace("\\\n", " ").splitlines():
            if shlex.split(line, comments=True):
                yield line


def blocks(page: str) -> list[Block]:
    found, heading, language, lines = [], "", "", None
    for line in (ROOT / page).read_text().splitlines():
        fence = re.match(r"```(\w*)$", line)
        if fence and lines is None:
            language, lines = fence.group(1), []
        elif fence and lines is not None:
            found.append(Block(page, heading, language, "\n".join(lines)))
            lines = None
        elif lines is not None:
            lines.append(line)
        elif line.startswith("#"):
            heading = line
    assert lines is None, f"{page}: a block is not closed"
    return found


def inline(page: str) -> list[str]:
    """What the page's prose sets as code."""
    prose = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
