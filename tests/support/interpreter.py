"""Code run in a fresh interpreter, where it may be forked, interrupted or told by the environment."""

import os
import subprocess
import sys


def fresh(code, seconds=60, **environment):
    """What the code prints to either stream; it must end well, in time, and without a warning."""
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    assert found.returncode == 0, found.stdout
    return found.stdout
