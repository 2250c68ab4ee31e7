"""
The agent that runs inside the kernel.

Its source is sent to a ready Python kernel as a silent request, so outputs, prompt numbers and the user's namespace do
not change. It imports only standard modules that a bare kernel has already imported. Its payload travels in the
metadata of each execute reply, under :data:`KEY`.

GPUs and compilers are covered by :mod:`~pytest_lecturecheck.kernel.agent.device_agent`. Its source is sent along as
text and compiled only when a lecture imports one of :data:`DEVICE_MODULES`.
"""

from __future__ import annotations

import contextlib
import gc
import linecache
import os
import signal
import sys
import threading
from typing import Any

KEY = "lecturecheck"
"""Key of the agent's payload in ``execute_reply.metadata``."""

KERNEL_PACKAGES = frozenset({"IPython", "ipykernel", "zmq", "tornado", "jupyter_client", "debugpy", "_pydevd_bundle"})
"""Packages that the kernel itself is made of."""

TIMED_FILES = frozenset({"<timed exec>", "<timed eval>", "<magic-timeit>"})
"""File names that IPython gives the body of ``%%time`` and ``%%timeit``."""

UNNAMED_FILE = "<unknown>"
"""File name of code that IPython parses without one, such as the body of ``%%time``."""

DEVICE_AGENT = "device_agent"
"""Name of the module that is compiled once a lecture imports one of :data:`DEVICE_MODULES`."""

MEMORY_VARIABLES = (
    *("NUMPY_MADVISE_HUGEPAGE", "PYTHONMALLOC", "GLIBC_TUNABLES", "LD_PRELOAD"),
    *("MALLOC_ARENA_MAX", "MALLOC_CONF", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_PERTURB_"),
    *("MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_"),
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    *("JAX_ENABLE_X64", "JAX_PLATFORMS", "JAX_NUM_CPU_DEVICES", "XLA_FLAGS"),
    *("XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE"),
    *("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"),
)
"""Environment variables that change how much memory the same code needs."""

LIVE_BUFFERS = "live_buffers"
"""Name of the module that lists JAX's arrays after an out-of-memory error."""

LINE_SAMPLING = "line_sampling"
"""Name of the module that answers in which line the running cell is."""

SUPERLU_MODULE = "scipy.sparse.linalg._dsolve._superlu"
"""Extension module in which all sparse factorisations of SciPy end."""

DEVICE_MODULES = ("jax", "torch", "cupy")
"""Modules that the device agent supports."""
CRASH_RECORD_FILE = "crash-record"
"""Name of the crash record in the kernel's private folder."""
STACK_FILE = "stack"
"""Name of the file, in the same folder, to which faulthandler dumps the stack on a signal."""
LOST_REPLY_FILE = "lost-reply"
"""Name of the file, in the same folder, that names the request whose reply could not be sent, and why."""


class Agent:
    """
    Observes what cells do, and ends the kernel on request.

    Args:
        shell: IPython's shell; nothing is patched before :meth:`install`.
        folder: the kernel's private folder.
        sources: source of the other modules of the agent by name, each compiled when it is first needed, or its code.
    """

    def __init__(self, shell: Any, folder: str = "", sources: Any = None) -> None:
        """Attach to IPython's ``shell``."""
        self.shell = shell
        self.folder = folder
        self.sources: dict[str, Any] = sources or {}
        self.loaded: dict[str, dict[str, Any]] = {}
        self.devices: Any = None
        self.sparse: Any = None
        self.stack_offer: dict[str, int] = {}
        self.kernel = shell.kernel
        self.baseline_modules = frozenset(sys.modules)
        self.baseline_threads = {thread.ident for thread in threading.enumerate()}
        self.thread_cells: dict[int | None, int] = {}
        self.shell_lines: list[tuple[str, int]] = []
        self.installed: dict[str, int] | None = None
        self.replaced: list[str] = []
        self.breakpoint_count = 0
        self.exit_asked = False
        self.exit_line: int | None = None
        self.shown_line: int | None = None
        self.request_count = 0
        self.pending_software = False
        self.old_collections = [stats["collections"] for stats in gc.get_stats()[1:]]
        # As they were before the lecture could set them.
        self.variables = {name: os.environ[name] for name in MEMORY_VARIABLES if name in os.environ}

    def install(self) -> None:
        """Wrap the few functions through which a cell's actions can be observed."""
        self._load("output_flushing")["spare_idle_flushes"](sys.stdout, sys.stderr)
        self._watch_replies()
        self._watch_shell_lines()
        self._watch_breakpoints()
        self._watch_exits()
        self._watch_shown_errors()
        self._keep_native_stderr()
        self._keep_line_numbers()
        self._offer_stack()
        self._offer_lines()
        if DEVICE_AGENT in self.sources:
            watch = self._load("import_watch")["ImportWatch"]
            sys.meta_path.insert(0, watch("jax._src.monitoring", self._listen_to_jax))
            sys.meta_path.insert(0, watch(SUPERLU_MODULE, self._watch_superlu))
        self.kernel.lecturecheck_agent = self

    def _watch_replies(self) -> None:
        replies = self._load("replies")
        replies["attach_payload"](self.kernel, KEY, self.payload)
        if self.folder:
            replies["note_lost_replies"](self.kernel, f"{self.folder}/{LOST_REPLY_FILE}")

    def _watch_shell_lines(self) -> None:
        # `!cmd` and %pip end in this function with the command already expanded; wrapping shell.system instead would
        # change the frame depth in which IPython looks up $variables.
        try:
            from ipykernel import zmqshell  # noqa: PLC0415 - the agent loads what the kernel has loaded
        except ImportError:
            return
        original = getattr(zmqshell, "system", None)
        if original is None:
            return

        def system(command: str) -> int:
            before = self._before_line(str(command))
            code = original(command)
            self._after_line(before)
            self.shell_lines.append((str(command), code if isinstance(code, int) else 0))
            return code  # type: ignore[no-any-return]

        zmqshell.system = system  # type: ignore[attr-defined, assignment]
        self._watch_captured_lines()

    def _watch_captured_lines(self) -> None:
        # `x = !cmd`, %sx and %system end here (not on Windows); IPython drops their exit codes.
        try:
            from IPython.utils import _process_common as common  # noqa: PLC0415 - as above
        except ImportError:
            return
        original = getattr(common, "process_handler", None)
        if original is None:
            return

        def process_handler(cmd: Any, callback: Any, *args: Any, **kwargs: Any) -> Any:
            before = self._before_line(str(cmd))

            def observing(process: Any) -> Any:
                result = callback(process)
                self._after_line(before)
                code = getattr(process, "returncode", None)
                self.shell_lines.append((str(cmd), code if isinstance(code, int) else 0))
                return result

            return original(cmd, observing, *args, **kwargs)

        common.process_handler = process_handler

    def _before_line(self, command: str) -> dict[str, Any]:
        """Note what is installed before a shell line; return the versions if it may change them."""
        installed = self._load("installed_packages")
        if self.installed is None:
            self.installed = installed["installed_stamp"]()
        return installed["installed_versions"]() if " install" in command else {}

    def _after_line(self, before: dict[str, Any]) -> None:
        self.replaced += self._load("installed_packages")["replaced_modules"](before)

    def _watch_breakpoints(self) -> None:
        original = sys.breakpointhook

        def breakpointhook(*args: Any, **kwargs: Any) -> Any:
            self.breakpoint_count += 1
            return original(*args, **kwargs)

        sys.breakpointhook = breakpointhook

    def _watch_exits(self) -> None:
        original = self.shell.ask_exit

        def ask_exit() -> None:
            self.exit_asked, self.exit_line = True, self._running_line()
            original()

        self.shell.ask_exit = ask_exit

    def _watch_shown_errors(self) -> None:
        # %run and widgets show an error while the cell's own frames are still on the stack, but not in the traceback.
        original = getattr(self.shell, "_showtraceback", None)
        if original is None:
            return

        def show(*args: Any, **kwargs: Any) -> Any:
            self.shown_line = self._running_line()
            return original(*args, **kwargs)

        self.shell._showtraceback = show  # noqa: SLF001 - the one function through which all errors are shown

    def _keep_native_stderr(self) -> None:
        # ipykernel redirects fd 2 into a pipe that a Python thread reads. After a native abort under the GIL nobody
        # reads that pipe, so the abort message would be lost. The copy of the real stderr leads to the session.
        copy = getattr(sys.stderr, "_original_stdstream_copy", None)
        if not isinstance(copy, int):
            return
        import faulthandler  # noqa: PLC0415 - as above

        faulthandler.enable(file=copy)
        os.dup2(copy, 2)

    def _keep_line_numbers(self) -> None:
        original, compiler = self.shell.transform_cell, self.shell.compile

        def transform_cell(raw_cell: str) -> Any:
            transformed = original(raw_cell)
            # The agent must never be the reason why a lecture fails.
            with contextlib.suppress(Exception):
                transformed = self._with_kept_lines(raw_cell, transformed)
            return transformed

        self.shell.transform_cell = transform_cell
        original_cache = compiler.cache

        def cache(transformed_code: str, *args: Any, **kwargs: Any) -> Any:
            name = original_cache(transformed_code, *args, **kwargs)
            # IPython also splits at form feeds, so that tracebacks show the wrong line of such a cell.
            lines = transformed_code.split("\n")[:-1]
            if len(lines) != len(transformed_code.splitlines()) and name in linecache.cache:
                linecache.cache[name] = (len(transformed_code), None, [f"{line}\n" for line in lines], name)
            return name

        compiler.cache = cache

    def _with_kept_lines(self, raw: str, transformed: str) -> str:
        count = transformed.count("\n")
        if raw.count("\n") + (not raw.endswith("\n")) == count or (count == 1 and not raw[:1].isspace()):
            return transformed
        fresh = type(self.shell.input_transformer_manager)()
        kept: str = self._load("line_numbers")["with_kept_lines"](raw, transformed, fresh)
        return kept

    def _load(self, name: str) -> dict[str, Any]:
        """Compile one of the agent's other modules; return its namespace."""
        if name not in self.loaded:
            namespace: dict[str, Any] = {"__name__": f"lecturecheck_agent_{name}"}
            code = self.sources[name]
            exec(compile(code, module_file(name), "exec") if isinstance(code, str) else code, namespace)  # noqa: S102 - our own
            self.loaded[name] = namespace
        return self.loaded[name]

    def _offer_stack(self) -> None:
        # The handler is written in C and works while native code holds the GIL.
        import faulthandler  # noqa: PLC0415 - as above

        # Windows has neither of them.
        number, register = getattr(signal, "SIGUSR2", None), getattr(faulthandler, "register", None)
        if number is None or register is None or not self.folder or signal.getsignal(number) is not signal.SIG_DFL:
            return
        try:
            fd = os.open(f"{self.folder}/{STACK_FILE}", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
        except OSError:
            return
        # Other threads keep running, so only the frames of the interrupted main thread are safe to read.
        register(number, file=fd, all_threads=False)
        self.stack_offer = {"signal": int(number), "fd": fd, "pid": os.getpid()}

    def _offer_lines(self) -> None:
        # The agent must never be the reason why a lecture fails.
        if self.folder and LINE_SAMPLING in self.sources:
            with contextlib.suppress(Exception):
                self._load(LINE_SAMPLING)["LineSampling"](self, self.folder).offer()

    def _listen_to_jax(self, monitoring: Any) -> None:
        self._load_devices()
        self.devices.listen(monitoring)

    def _watch_superlu(self, module: Any) -> None:
        self.sparse = self._load("sparse_watch")["SparseWatch"](self.shell)
        self.sparse.wrap(module)

    def _load_devices(self) -> None:
        if self.devices is not None:
            return
        path = f"{self.folder}/{CRASH_RECORD_FILE}" if self.folder else ""
        self.devices = self._load(DEVICE_AGENT)["DeviceAgent"](path, self.request_count + 1)

    def payload(self, reply_content: Any) -> dict[str, Any]:
        """Return the payload of the request that just ended, without empty entries."""
        self.request_count += 1
        payload: dict[str, Any] = {}
        if self.shell_lines:
            payload["shell_lines"], self.shell_lines = self.shell_lines, []
            before, self.installed = self.installed, None
            if before == self._load("installed_packages")["installed_stamp"]():
                payload["nothing_installed"] = True
        if self.replaced:
            payload["replaced"], self.replaced = self.replaced, []
        if self.breakpoint_count:
            payload["breakpoints"], self.breakpoint_count = self.breakpoint_count, 0
        if threads := self._new_threads():
            payload["threads"] = threads
        if self.pending_software:
            report, self.pending_software = self._load("software_report"), False
            payload["software"] = report["describe_software"](
                self.baseline_modules, self.variables, self._distributions_of
            )
            with contextlib.suppress(Exception):
                payload["lost_tasks"] = report["lost_task_errors"]()
        own = {**self._line_payload(reply_content), **self._live_buffers(reply_content)}
        return {**payload, **own, **self._stack_payload(), **self._sparse_payload(), **self._device_payload()}

    def _line_payload(self, reply_content: Any) -> dict[str, Any]:
        lines: dict[str, Any] = {}
        if self.exit_asked:
            lines["exit_asked"], lines["error_line"] = True, self.exit_line
        if reply_content.get("status") == "error":
            lines["error_line"] = self._error_line(reply_content.get("ename")) or lines.get("error_line")
        lines["shown_line"] = self.shown_line
        self.exit_asked, self.exit_line, self.shown_line = False, None, None
        return {name: value for name, value in lines.items() if value is not None}

    def _distributions_of(self, modules: list[str]) -> dict[str, tuple[str, str]]:
        # A lecture whose modules are all named like their distributions does without.
        return self._load("installed_packages")["distributions_of"](modules) if modules else {}

    def _live_buffers(self, reply_content: Any) -> dict[str, Any]:
        if reply_content.get("status") == "error" and "jax" in sys.modules and LIVE_BUFFERS in self.sources:
            with contextlib.suppress(Exception):
                return {"live_buffers": self._load(LIVE_BUFFERS)["of_failure"](self.shell, reply_content)}
        return {}

    def _sparse_payload(self) -> dict[str, Any]:
        factorisations = self.sparse.take() if self.sparse is not None else []
        return {"factorisations": factorisations} if factorisations else {}

    def _stack_payload(self) -> dict[str, Any]:
        if not self.stack_offer:
            return {}
        if self.request_count == 1:
            return {"stack_offer": self.stack_offer}
        # faulthandler does not appear in Python's table of handlers; a handler there is the lecture's.
        is_taken = signal.getsignal(self.stack_offer["signal"]) is not signal.SIG_DFL
        return {"stack_taken": True} if is_taken else {}

    def _device_payload(self) -> dict[str, Any]:
        if (
            self.devices is None
            and DEVICE_AGENT in self.sources
            and any(name in sys.modules for name in DEVICE_MODULES)
        ):
            self._load_devices()
        payload: dict[str, Any] = {} if self.devices is None else self.devices.payload(self.request_count)
        return payload

    def _new_threads(self) -> list[tuple[str, int]]:
        """List living threads started after the kernel was ready, with the request that first found each."""
        found = []
        for thread in threading.enumerate():
            # Some of the kernel's own threads start late (pyzmq's with the first large output).
            if thread.ident in self.baseline_threads or type(thread).__module__.partition(".")[0] in KERNEL_PACKAGES:
                continue
            # IPython's own event loop for scripts (%%bash) runs in a plain thread.
            target = getattr(thread, "_target", None)
            if str(getattr(target, "__module__", "")).startswith("asyncio"):
                continue
            first = self.thread_cells.setdefault(thread.ident, self.request_count)
            found.append((thread.name, first))
        return found

    def _running_line(self) -> int | None:
        """Return the line of the running cell: of the frames of the outermost cell, the deepest one."""
        cell_files = getattr(self.shell.compile, "_filename_map", {})
        lines: dict[str, int] = {}
        cell_file: str | None = None
        frame: Any = sys._getframe()  # noqa: SLF001 - what the inspect module does, which the kernel need not have loaded
        while frame is not None:
            if frame.f_code.co_filename in cell_files:
                cell_file = frame.f_code.co_filename
                lines.setdefault(cell_file, frame.f_lineno)
            frame = frame.f_back
        return lines.get(cell_file) if cell_file is not None else None

    def _error_line(self, name: Any) -> int | None:
        """Find the line of the running cell: the deepest frame of the outermost cell in the last traceback."""
        error = getattr(sys, "last_value", None)
        if type(error).__name__ != name:
            # Left over from an earlier cell.
            return None
        traceback = getattr(sys, "last_traceback", None)
        cell_files = getattr(self.shell.compile, "_filename_map", {})
        cell_file, line, magic_line = None, None, 0
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if cell_file is None and code.co_filename in cell_files:
                cell_file = code.co_filename
            if cell_file is not None and code.co_filename == cell_file:
                line = traceback.tb_lineno
            elif code.co_name == "run_cell_magic":
                magic_line = line or 0
            elif magic_line and code.co_filename in TIMED_FILES:
                line = magic_line + traceback.tb_lineno
            traceback = traceback.tb_next
        if isinstance(error, SyntaxError) and error.lineno is not None:
            if line is None:
                line = error.lineno
            elif magic_line and error.filename == UNNAMED_FILE:
                line = magic_line + error.lineno
        return line

    def ask_software(self) -> None:
        """Add the software of this kernel to the payload of this request."""
        self.pending_software = True

    def leave(self) -> None:
        """Run the exit handlers and end the process."""
        self._load("kernel_exit")["leave"](self.old_collections)


def module_file(name: str) -> str:
    """Return the file name under which tracebacks show one of the agent's other modules."""
    return f"<lecturecheck agent, {name}>"
