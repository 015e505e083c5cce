"""Implementations to try `conform` on: the specification itself, copies of it with a mistake planted, and bad companions."""

from __future__ import annotations

from windowgrad.conform.adapters.windowgrad import OnNumPy
from windowgrad.dispatch import result_dtype


class Exact(OnNumPy):
    """windowgrad on arrays of objects, so that nothing is compiled; its answers have the dtype that rule 8 says."""

    name, title = "exact", "Exact"
    convert = "{}.astype(object)"

    def given(self, case):
        """The case as this implementation takes it."""
        return case

    def call(self, case):
        return super().call(self.given(case))

    def program(self, case, check):
        kind = result_dtype(case.meaning, [array.dtype for array in case.arrays.values()])
        head, mask, tail = super().program(case, check).partition("\nwhere = ")
        text = head + mask + tail.replace(".astype(object)", "", 1) if mask else head
        if check == "forward":
            return f"{text}got = got.astype(np.{kind})\n"
        if check == "gradient":
            return f"{text}got = tuple(part.astype(np.{case.dtype}) for part in got)\n"
        return f"{text}got = got.astype(np.{case.dtype})\n" if check == "tangent" else text


class WrongDivisor(Exact):
    """Padding is counted even if it should not be."""

    name = "wrong-divisor"

    def call(self, case):
        return super().call(case).replace("count_include_pad=False", "count_include_pad=True")


class IgnoresMasks(Exact):
    """All cells count, whatever the mask says."""

    name = "ignores-masks"

    def call(self, case):
        return super().call(case).replace(", where=where", "")


class Unaware(Exact):
    """Written before cases had masks."""

    name, masks = "unaware", False


class PadOrder(Exact):
    """Padding after the input is taken for padding before it."""

    name = "pad-order"

    def call(self, case):
        return super().call(case).replace(f"padding={case.padding}", f"padding={tuple((hi, lo) for lo, hi in case.padding)}")


class LastTie(Exact):
    """Among equals the last wins: cells are tilted so that later ones are greater, which changes the order of equals only."""

    name = "last-tie"

    def program(self, case, check):
        text = super().program(case, check)
        tilted = "x = x * 10**6 + np.arange(x.size).reshape(x.shape).astype(object)\n"
        calls = ("got = wg.", "y, pull", "y, got")
        head, call, tail = min((text.partition(start) for start in calls), key=lambda parts: len(parts[0]))
        return text if check == "forward" else head + tilted + call + tail


class WrongGradient(Exact):
    """The forward rule is right; the gradient of a mean divides as if all padding were counted."""

    name = "wrong-gradient"

    def gradient(self, case):
        return super().gradient(case).replace("count_include_pad=False", "count_include_pad=True")


class Ends(Exact):
    """Some cases end the process, some never end, some take all memory."""

    name = "ends"

    def program(self, case, check):
        how = {
            "forward": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
            "indices": "while True:\n    pass\n",
            "gradient": "got = np.ones(2**27)\nimport time\ntime.sleep(60)\n",
            "tangent": "print('said on the way')\nraise RuntimeError('no')\n",
        }
        return f"import numpy as np\n{how[check]}" if case.rank == 1 else super().program(case, check)


class Slow(Exact):
    """It takes long over each case, and has no ceil mode."""

    name, title, most = "slow", "Slow", 7

    def supports(self, case, check):
        return "it has no ceil mode" if case.ceil_mode else None


class InBatches(WrongDivisor):
    """It computes some cases in one program, which fails if one of float64 is among them and leaves those of rank 3 open."""

    name, at_once = "in-batches", 8

    def together(self, cases, check):
        lines = ["got = []"]
        for case in cases:
            if case.dtype == "float64":
                lines.append("raise ValueError('together')")
            program = "got = None" if case.rank == 3 else self.program(case, check)
            lines.append(f"names = {{}}\nexec({program!r}, names)\ngot.append(names['got'])")
        return "\n".join(lines)


class Disturbed(Exact):
    """It is right by itself, and wrong in one program with others."""

    name, title, at_once = "disturbed", "Disturbed", 8

    def together(self, cases, check):
        return "\n".join(["import numpy as np", *(f"a{n} = np.float32(0)" for n in range(len(cases)))]) + (
            f"\ngot = [{', '.join(f'a{n}' for n in range(len(cases)))}]"
        )


class NotThere(Exact):
    name, title, package = "not-there", "Not there", "no-such-distribution"


class CannotImport(Exact):
    name, title, imports = "cannot-import", "Cannot import", "import no_such_module"


class Waits(Exact):
    """It agrees twice. Then it starts a process in a session of its own, which opens a pipe, and waits for ever."""

    name, title = "waits", "Waits"
    count = 0

    def program(self, case, check):
        self.count += 1
        return super().program(case, check) if self.count < 3 else WAIT


WAIT = """
import os, sys, subprocess
path = os.environ["CONFORM_TEST_PIPE"]
code = f"import os; fd = os.open({path!r}, os.O_WRONLY); os.write(fd, b'here'); [0 for _ in iter(int, 1)]"
subprocess.Popen([sys.executable, "-I", "-S", "-c", code], start_new_session=True, env={})
while True:
    pass
"""
