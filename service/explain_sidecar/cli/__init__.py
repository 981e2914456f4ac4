"""The command line: each other module of this folder declares one command, and is found by being here.

Nothing heavy is imported before a command runs, so that ``--help`` answers at once.
"""

from importlib import import_module
from pkgutil import iter_modules

try:
    from explain_sidecar.cli.root import NAME, cli, main

    for _module in iter_modules(__path__):
        if _module.name != "__main__":
            import_module(f"{__name__}.{_module.name}")
except KeyboardInterrupt:
    raise SystemExit(130) from None  # whoever types Ctrl-C at once sees no more of this than later

__all__ = ["NAME", "cli", "main"]
