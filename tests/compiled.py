"""What `make setup` has compiled of the engine, for a build of the same sources in another folder."""

import os
import shutil
from pathlib import Path

from tests.documentation import ROOT

ENGINE = ROOT / "explain_core" / "engine"
COMPILER = f"""#!/bin/sh
while [ "$1" != -o ]; do shift; done
case "$2" in
*.so) cp "{ENGINE}/${{2##*/}}" "$2" ;;
*) : > "$2" ;;
esac
"""
"""It links what is compiled already."""


def bring_compiled(folder: Path, engine: Path) -> dict[str, str]:
    """The environment of a build in ``folder``, whose sources are in ``engine`` and have their times: it translates and compiles nothing again."""
    there = folder / "build" / "engine" / engine.relative_to(folder)
    there.mkdir(parents=True)
    for translated in (ROOT / "build" / "engine" / ENGINE.relative_to(ROOT)).glob("*.c"):
        shutil.copy2(translated, there)
    compiler = folder / "build" / "cc"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    return {**os.environ, "CC": str(compiler)}
