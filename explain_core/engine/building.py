"""How the engine is compiled, by whoever builds a distribution that has it; this file imports nothing of the package.

Each ``.pyx`` beside it is a module; the ``.pxd`` hold what they share, as functions that the compiler puts into each of them. Cython makes C of them,
and the compiler of the package ``ziglang`` machine code: no other compiler is needed. Python's stable ABI is all that the modules call, so that those
built by one Python serve every later one. Environment variables:

- ``CC``: another C compiler.
- ``ENGINE_PLATFORM``: the tag of the wheel to build, one of ``PLATFORMS``, where it is not this machine's.
- ``CYTHON_CACHE_DIR``: a folder that keeps the C of sources that were translated before.
- ``ENGINE_CHECKED=1``: bounds are checked at each access to an array that Python owns; for tests.
"""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
PLATFORMS = {
    "manylinux_2_28_x86_64": "x86_64-linux-gnu.2.28",
    "manylinux_2_28_aarch64": "aarch64-linux-gnu.2.28",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
}
"""Of the wheels of a release, as zig calls them."""

PLATFORM, OWN = os.environ.get("ENGINE_PLATFORM", ""), os.environ.get("CC", "")
if PLATFORM and (OWN or PLATFORM not in PLATFORMS):
    sys.exit(f"ENGINE_PLATFORM={PLATFORM}: give one of {', '.join(PLATFORMS)}, and no CC")
TARGET = PLATFORMS.get(PLATFORM, "")
CHECKED = os.environ.get("ENGINE_CHECKED") == "1"
JOBS = min(os.cpu_count() or 1, 4)
"""Modules that are translated, and then compiled, at the same time."""
BUILD = "build/engine-checked" if CHECKED else "build/engine"

# The bits of the results depend on these: no fused multiply-add, no reordering, no assumption that NaN does not occur, and no
# multiplication in place of the C library's pow, which is what Python's ** calls.
ARITHMETIC = ["-O3", "-ffp-contract=off", "-fno-fast-math", "-fno-builtin-pow"]
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": CHECKED,
    "initializedcheck": CHECKED,
    "wraparound": False,
    "cdivision": True,
    "binding": True,
}


class BuildEngine(build_ext):
    """``build_ext`` by Cython, and the compiler of ``ziglang`` unless ``CC`` names one."""

    def run(self) -> None:
        # Not before: whoever asks for the metadata or the sources alone translates nothing.
        from Cython.Build import cythonize

        # The package's folder may have another name, such as that of an unpacked source distribution.
        package = Path(BUILD, "include", "explain_core")
        package.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            package.symlink_to(HERE.parent)
        translated = cythonize(
            self.extensions,
            include_path=[str(package.parent)],
            compiler_directives=DIRECTIVES,
            build_dir=BUILD,
            cache="CYTHON_CACHE_DIR" in os.environ,
            nthreads=JOBS,
            quiet=True,
        )
        for ours, one in zip(self.extensions, translated, strict=True):
            ours.sources, ours.depends = one.sources, one.depends
        self.parallel = self.parallel or JOBS
        super().run()

    def build_extensions(self) -> None:
        if not OWN:
            compiler = [sys.executable, "-m", "ziglang", "cc", *(["-target", TARGET] if TARGET else [])]
            macos = "macos" in TARGET or (not TARGET and sys.platform == "darwin")
            shared = ["-Wl,-undefined,dynamic_lookup"] if macos else []
            self.compiler.set_executables(
                compiler=compiler,
                compiler_so=[*compiler, "-fPIC"],
                linker_so=[*compiler, "-shared", "-s", *shared],
                linker_exe=compiler,
            )
        super().build_extensions()


def arguments(folder: Path) -> dict[str, Any]:
    """Of ``setup`` in that folder."""
    options = {"bdist_wheel": {"py_limited_api": "cp311"}}
    if PLATFORM:
        options["bdist_wheel"]["plat_name"] = PLATFORM
        options["build"] = {"build_base": f"build/{PLATFORM}"}  # apart from the modules of this machine
    return {"ext_modules": _extensions(folder), "cmdclass": {"build_ext": BuildEngine}, "options": options}


def _extensions(folder: Path) -> list[Any]:
    """The engine's modules, their sources named from the folder of the build."""
    flags = [*ARITHMETIC, *_baseline(), *([] if OWN else ["-g0", "-fno-sanitize=all"])]
    return [
        Extension(
            f"explain_core.engine.{source.stem}",
            [str(source.relative_to(folder))],
            extra_compile_args=flags,
            libraries=["m"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
        )
        for source in sorted(HERE.glob("*.pyx"))
    ]


def _baseline() -> list[str]:
    """Processors of the last fifteen years, whichever this one is."""
    machine = TARGET.partition("-")[0] or platform.machine()
    if machine not in ("x86_64", "AMD64"):
        return []
    return ["-march=x86-64-v2" if OWN else "-march=x86_64_v2"]
