"""The `windowgrad` command in this process, as a user calls it in a folder: its status and what it prints."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any, NamedTuple
from unittest import mock

from windowgrad import cli


class Ended(NamedTuple):
    status: Any
    out: str
    err: str


def windowgrad(*arguments: str, cwd: Any) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with mock.patch.object(sys, "argv", ["windowgrad", *arguments]), contextlib.chdir(cwd), streams[0], streams[1]:
        try:
            cli.main()
            status: Any = 0
        except SystemExit as stop:
            status = stop.code
    return Ended(status, out.getvalue(), err.getvalue())
