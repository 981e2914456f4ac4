"""Patterns of JSON Schemas, by an engine whose time is linear in the text: RE2 never backtracks."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from explain_sidecar.formats.errors import SchemaProblem

MAX_TEXT = 60
"""Longest part of a pattern in a message, in characters."""

KEPT = 256
"""Compiled patterns that a process keeps; each may take 8 MB while it is matched."""

_CALL = 10
_UNITS_PER_STEP = 200
"""What a call of the engine counts for; and the characters times its instructions that take as long as a step where it is slowest."""

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|.)", re.DOTALL)


class Pattern:
    """A regular expression of a JSON Schema, found anywhere in a text. Raises ``SchemaProblem`` where RE2 cannot express it.

    ``size`` counts its instructions: compiling takes about as many steps.
    """

    def __init__(self, text: str) -> None:
        self.shown = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
        # RE2 writes the code of a character in another way.
        self._text = _ESCAPE.sub(lambda found: f"\\x{{{found[1]}}}" if found[1] else found[0], text)
        try:
            self.size: int = _compiled(self._text).programsize
        except (ValueError, UnicodeEncodeError) as error:
            raise SchemaProblem(
                f"the pattern {self.shown} is not one of RE2 ({error}), which has no look-around, no back-references and no repetitions "
                "above 1,000; write it without, or read the records with format json, which validates nothing"
            ) from None

    def steps(self, text: str) -> int:
        """What ``matches`` counts for; the engine may have to compile the pattern again."""
        return _CALL + (len(text) + _UNITS_PER_STEP) * self.size // _UNITS_PER_STEP

    def matches(self, text: str) -> bool:
        return _compiled(self._text).search(text) is not None


@lru_cache(KEPT)
def _compiled(text: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors, options.never_capture = False, True
    try:
        return re2.compile(text, options)
    except re2.error as error:
        complaint = error.args[0] if error.args else b""
        said = complaint.decode(errors="replace") if isinstance(complaint, bytes) else str(complaint)
        raise ValueError(said) from None
