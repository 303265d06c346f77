"""Name of the running program, for commands that can be pasted, and its streams."""

from __future__ import annotations

import _thread
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dprl.platform.redaction import without_secrets

STDOUT, STDERR = 1, 2
_NAME = "dprl"
_FINALIZER_SECONDS = 0.1
TYPED: list[str] = []
"""Words of the running command."""


def command(*words: str) -> str:
    """Return a command line of dprl with these words, quoted for a shell."""
    return shlex.join([program(), *words])


def program() -> str:
    """Return 'dprl' if the shell finds it, else the path of the call."""
    called = Path(sys.argv[0])
    return str(called) if called.name == _NAME and shutil.which(_NAME) is None else _NAME


def resume_command(words: Sequence[str] | None = None) -> str:
    """Return the command that resumes the one with these words, by default the running one.

    It has no secrets, because it is written to files.
    """
    found = []
    for word in TYPED if words is None else words:
        option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        found += [] if word == "--fresh" else [f"{option}{equals}{without_secrets(value)}"]
    return command(*found)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM, from Slurm, Kubernetes or `timeout`, raise KeyboardInterrupt within the context.

    Only the first one: `timeout` sends two. Python drops exceptions in finalizers, such as those of SQLAlchemy; a
    KeyboardInterrupt from there, also of Ctrl-C, is raised again. Outside the main thread, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = False

    def interrupt(*_: object) -> None:
        nonlocal heard
        if not heard:
            heard = True
            raise KeyboardInterrupt

    def raise_again(dropped: sys.UnraisableHookArgs) -> None:
        nonlocal heard
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            hook(dropped)
            return
        heard = False
        threading.Timer(_FINALIZER_SECONDS, _thread.interrupt_main, [signal.SIGTERM]).start()

    before, hook = signal.signal(signal.SIGTERM, interrupt), sys.unraisablehook
    sys.unraisablehook = raise_again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@contextmanager
def redirected(stream: int, target: int | None) -> Iterator[None]:
    """Redirect STDOUT or STDERR within the context to a descriptor, or discard it for None; also for compiled code."""
    python_stream = sys.stdout if stream == STDOUT else sys.stderr
    python_stream.flush()
    kept = os.dup(stream)
    sink = os.open(os.devnull, os.O_WRONLY) if target is None else os.dup(target)
    os.dup2(sink, stream)
    os.close(sink)
    try:
        yield
    finally:
        python_stream.flush()
        os.dup2(kept, stream)
        os.close(kept)
