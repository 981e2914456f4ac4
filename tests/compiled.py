"""A C compiler for builds of this engine in another folder: it gives what `make setup` has compiled of the same sources."""

import os
from pathlib import Path

from tests.documentation import ROOT

COMPILER = f"""#!/bin/sh
while [ "$1" != -o ]; do shift; done
case "$2" in
*.so) cp "{ROOT}/explain_core/engine/${{2##*/}}" "$2" ;;
*) : > "$2" ;;
esac
"""


def compiled(folder: Path) -> dict[str, str]:
    """The environment of such a build; the compiler is in ``folder``. Cython, or what it keeps of the same sources, needs each of them."""
    compiler = folder / "cc"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    return {**os.environ, "CC": str(compiler), "CYTHON_CACHE_DIR": str(ROOT / "build" / "cython")}
