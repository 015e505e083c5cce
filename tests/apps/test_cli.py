"""The `windowgrad` command, run as a user runs it."""

import os
import subprocess
import sys

import pytest

import windowgrad as wg
from support.paths import ROOT
from support.small_model import save_small


def windowgrad(arguments, cwd=None, **environment):
    command = [sys.executable, "-m", "windowgrad", *arguments.split()]
    environment |= {"COLUMNS": "80", "PATH": "", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)


def test_version_is_the_one_of_the_package():
    result = windowgrad("--version")
    assert (result.returncode, result.stdout) == (0, f"windowgrad {wg.__version__}\n")


def test_explain_draws_each_window_of_a_padded_pool():
    result = windowgrad("explain max_pool2d --input 5x5 --kernel 3 --stride 2 --padding 1")
    assert result.returncode == 0
    first, second, *_, legend = result.stdout.splitlines()
    assert first == "max_pool2d: input 5x5 -> output 3x3"
    assert second.startswith("Sliding(kernel=(3, 3), stride=(2, 2), padding=((1, 1), (1, 1))")
    assert legend == "■ seen   · not seen   □ padding it covers   × past the padding, no cell at all"
    assert (
        """\
output (0, 0)         output (0, 1)         output (0, 2)
4 cells + 5 padding   6 cells + 3 padding   4 cells + 5 padding
□ □ □                     □ □ □                     □ □ □
□ ■ ■ · · ·             · ■ ■ ■ ·             · · · ■ ■ □
□ ■ ■ · · ·             · ■ ■ ■ ·             · · · ■ ■ □
  · · · · ·             · · · · ·             · · · · ·
  · · · · ·             · · · · ·             · · · · ·
  · · · · ·             · · · · ·             · · · · ·
"""
        in result.stdout
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_explain_draws_in_ascii_where_the_terminal_has_no_other_signs(encoding):
    asked = "explain max_pool1d --input 5 --kernel 3 --stride 2 --padding 1 --ceil-mode --limit 2"
    plain, drawn = windowgrad(asked, PYTHONIOENCODING=encoding), windowgrad(asked)
    assert (plain.returncode, plain.stderr) == (0, "")
    assert plain.stdout.isascii()
    for sign, mark in (("■", "#"), ("·", "."), ("□", "o"), ("×", "x"), ("…", "...")):
        drawn.stdout = drawn.stdout.replace(sign, mark)
    assert plain.stdout == drawn.stdout
    assert "\no # # . . ." in plain.stdout


def test_no_command_fails_for_want_of_a_sign():
    result = windowgrad("conform --only nothing-of-the-kind-β", PYTHONIOENCODING="ascii")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_explain_marks_the_overhang_of_ceil_mode_apart_from_padding():
    result = windowgrad("explain avg_pool1d --input 4 --kernel 3 --stride 2 --padding 1 --ceil-mode")
    assert "3 cells    " in result.stdout
    assert "1 cell + 1 padding" in result.stdout
    assert "· · · ■ □ ×" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("adaptive_avg_pool1d --input 5 --output-size 2", "■ ■ ■ · ·"),
        ("adaptive_max_pool2d --input 2x3 --output-size 1x-", "input 2x3 -> output 1x3"),
        ("global_avg_pool2d --input 2x2", "■ ■\n■ ■"),
        ("conv1d --input 4 --kernel 3 --padding same", "□ ■ ■ · ·"),
        ("conv1d --input 5 --kernel 2 --dilation 2", "■ · ■ · ·"),
        ("conv1d --input 4 --kernel 2 --padding 0:1", "input 4 -> output 4"),
        ("conv_transpose1d --input 2 --kernel 3 --stride 2 --output-padding 1", "each input adds to the output cells"),
        (
            "max_pool3d --input 4x4x5 --kernel 2",
            "axis 2 (a window is the product of its axes):\noutput 0   output 1\n■■···      ··■■·",
        ),
        (
            "max_pool1d --input 100 --kernel 3 --dilation 4 --stride 20 --padding 5",
            "output 5: cells 95 to 99 every 4 + 1 padding",
        ),
        ("max_pool2d --input 9x9 --kernel 1 --limit 2", "… and 79 more (--limit shows more)"),
        ("max_pool2d --input 5x5 --kernel 2 --limit 3", "… and 2 more (--limit shows more)"),
        (
            "max_pool2d --input 9x9 --kernel 1 --limit 20",
            "(a row of 9 is 177 characters wide, the terminal 80: rows are wrapped)\n\noutput (0, 0)",
        ),
        ("max_pool2d --input 9x9 --kernel 1 --limit 20", "… and 63 more (--limit shows more)"),
        ("smooth_max_pool --input 3 --kernel 2", "input 3 -> output 1"),
    ],
)
def test_explain_knows_every_geometry(arguments, expected):
    result = windowgrad(f"explain {arguments}")
    assert result.returncode == 0, result.stderr
    assert expected in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("max_pool2d --input 5x5", "--kernel is missing: max_pool2d needs it, for example --kernel 3"),
        (
            "adaptive_max_pool1d --input 5",
            "--output-size is missing: adaptive_max_pool1d needs it, for example --output-size 7",
        ),
        ("max_pool2d --input 5 --kernel 2", "input=5: has 1 axis, max_pool2d takes 2"),
        ("max_pool2d --input axb --kernel 2", "input='axb': must be a number such as 3, or one per axis such as 3x5"),
        ("max_pool2d --input 5x5 --kernel 0", "kernel_size=0 on axis 0: must be at least 1"),
        ("max_pool1d --input 0 --kernel 1", "input=0 on axis 0: must be at least 1"),
        ("conv1d --input 5 --kernel 2 --stride 2 --padding same", 'padding="same": stride must be 1 on every axis, not 2'),
        (
            "median_pool --input 5 --kernel 2",
            "operator='median_pool': must be max_pool, min_pool, avg_pool, smooth_max_pool, lp_pool, one of these with the "
            "prefix adaptive_ or global_, "
            "conv or conv_transpose, with or without 1d, 2d, 3d",
        ),
    ],
)
def test_a_wrong_argument_is_one_line_on_stderr_and_status_2(arguments, message):
    result = windowgrad(f"explain {arguments}")
    assert (result.returncode, result.stderr) == (2, f"windowgrad: {message}\n")


def test_an_output_too_large_to_list_is_refused():
    result = windowgrad("explain max_pool1d --input 5 --kernel 2 --padding 99999999999")
    assert result.returncode == 2
    assert "output of shape (100000000001,): needs 5.8 TiB" in result.stderr


def console_blocks():
    """The `$ windowgrad …` sessions of the pages, as (command, what the page says it prints)."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for block in page.read_text().split("```console\n")[1:]:
            command, _, printed = block.split("```")[0].removeprefix("$ windowgrad ").partition("\n")
            yield pytest.param(command, printed, id=f"{page.name}: {command}")


@pytest.mark.parametrize(("command", "printed"), list(console_blocks()))
def test_the_pages_show_what_the_command_prints(command, printed, tmp_path):
    save_small(tmp_path)
    assert windowgrad(command, cwd=tmp_path).stdout == printed
