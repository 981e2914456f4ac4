"""Python functions as machine code, by numba where it is installed.

Numba by itself makes machine code of each function, after optimising all that it calls anew. Here a function that only compiled
ones call is lowered once and no more, and each function that Python calls is optimised as a whole: a third of the time.
"""

from __future__ import annotations

import gc
import glob
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

try:
    import numba  # type: ignore[import-untyped, unused-ignore]
except ImportError:  # there is none for this machine
    numba = None  # type: ignore[assignment, unused-ignore]

AVAILABLE = numba is not None


_OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}
_UNCALLED: dict[str, Any] = {"no_cpython_wrapper": True}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code for Python to call, kept in a cache beside the file; itself without numba."""
    if not AVAILABLE:
        return function
    try:
        made = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # there is no directory that numba may write to
        return _without_literals(numba.njit(**_OPTIONS)(function))
    kept = made._cache
    # Numba looks at the function's own file alone, and would load code with a callee in it that has changed since.
    stamp = kept._impl.locator.get_source_stamp(), _sources()
    kept._cache_file = _Kept(kept._cache_path, kept._impl.filename_base, stamp)
    return _without_literals(made)


@cache
def _sources() -> str:
    """A digest of all files of this package that have functions for compiled ones to call."""
    texts = (path.read_bytes() for path in sorted(Path(__file__).parent.rglob("*.py")))
    return hashlib.sha256(b"\0".join(text for text in texts if b"explain_core.compiling" in text)).hexdigest()


def allocating(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for compiled ones to call, and for them alone, which makes arrays; itself without numba."""
    return _deferred(function, _nrt=True)


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """``allocating``, for a function that neither makes an array, nor copies one to another, nor is given a new one by what it calls.

    It counts no references (numba's NRT), which is atomic and slow.
    """
    return _deferred(function, _nrt=False)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """``inner``, for a function so small that calling it costs more than it does: a copy of it in each of its callers."""
    return _deferred(function, forceinline=True, _nrt=False)


def _deferred(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    if not AVAILABLE:
        return function
    return _without_literals(
        numba.njit(pipeline_class=_Deferring, **_OPTIONS, **_UNCALLED, **options)(function)
    )


def _without_literals(function: Any) -> Callable[..., Any]:
    """The function, which else numba would compile anew for each constant that it is called with."""
    unliteral: Any = numba.types.unliteral
    template = function.get_call_template

    def get_call_template(arguments: Any, keywords: Any) -> Any:
        return template([unliteral(kind) for kind in arguments], keywords)

    function.get_call_template = get_call_template
    return function  # type: ignore[no-any-return]


if AVAILABLE:
    from numba.core import event
    from numba.core.caching import IndexDataCacheFile
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler
    from numba.core.compiler_machinery import LoweringPass, register_pass
    from numba.core.typed_passes import NativeLowering, NoPythonBackend

    class _Undisturbed(event.Listener):  # type: ignore[misc, unused-ignore]
        """No collection of garbage while numba compiles: it makes little, and looking for it takes a seventh of the time."""

        def __init__(self) -> None:
            self._depth, self._before = 0, False

        def on_start(self, _: Any) -> None:
            if self._depth == 0:
                self._before = gc.isenabled()
                gc.disable()
            self._depth += 1

        def on_end(self, _: Any) -> None:
            self._depth -= 1
            if self._depth == 0 and self._before:
                gc.enable()

    event.register("numba:compile", _Undisturbed())  # type: ignore[no-untyped-call, unused-ignore]

    class _Kept(IndexDataCacheFile):  # type: ignore[misc, unused-ignore]
        """A file for each signature, named after all that its code depends on.

        Numba's own are numbered by an index. Of two processes that write it at the same time, or one that is killed in
        between, the index may lose a signature, or name another's code or an older one's.
        """

        def __init__(self, folder: str, function: str, stamp: object) -> None:
            super().__init__(folder, function, stamp)  # type: ignore[no-untyped-call, unused-ignore]
            self._folder, self._function = Path(folder), function
            self._current = f"{function}.{_digest(self._version, stamp)}"

        def save(self, key: object, data: object) -> None:
            self._save_data(self._name(key), data)  # type: ignore[no-untyped-call, unused-ignore]
            for file in self._folder.glob(f"{glob.escape(self._function)}.*"):
                if not file.name.startswith(self._current):
                    file.unlink(missing_ok=True)

        def load(self, key: object) -> object:
            try:
                return self._load_data(self._name(key))  # type: ignore[no-untyped-call, unused-ignore]
            except OSError:
                return None

        def _name(self, key: object) -> str:
            return f"{self._current}.{_digest(key)}.nbc"

    def _digest(*content: object) -> str:
        return hashlib.sha256(repr(content).encode()).hexdigest()[:16]

    class _Library(JITCodeLibrary):  # type: ignore[misc, unused-ignore]
        """LLVM's representation of a function, for libraries that link it in: neither optimised nor made machine code."""

        def _optimize_functions(self, ll_module: Any) -> None:
            ll_module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalized = True

    @register_pass(mutates_CFG=False, analysis_only=False)  # type: ignore[no-untyped-call, unused-ignore]
    class _Defer(LoweringPass):  # type: ignore[misc, unused-ignore]
        _name = "defer"

        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call, unused-ignore]

        def run_pass(self, state: Any) -> bool:
            library: Any = _Library
            state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.flags.no_compile = True
            return False

    @register_pass(mutates_CFG=False, analysis_only=False)  # type: ignore[no-untyped-call, unused-ignore]
    class _Offer(LoweringPass):  # type: ignore[misc, unused-ignore]
        _name = "offer"

        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call, unused-ignore]

        def run_pass(self, state: Any) -> bool:
            entry = (
                state.func_id.func.__sizeof__
            )  # numba's key of the function must be a builtin; nobody calls it
            state.cr = state.cr._replace(entry_point=entry)
            state.targetctx.insert_user_function(entry, state.cr.fndesc, [state.library])
            return True

    class _Deferring(Compiler):  # type: ignore[misc, unused-ignore]
        """Numba's compiler without its last steps, which are left to that of the callers."""

        def define_pipelines(self) -> Any:
            (passes,) = super().define_pipelines()  # type: ignore[no-untyped-call, unused-ignore]
            at = [kind for kind, _ in passes.passes].index(NativeLowering)
            passes.passes.insert(at, (_Defer, "defer"))
            passes.add_pass_after(_Offer, NoPythonBackend)
            passes.finalize()
            return [passes]
