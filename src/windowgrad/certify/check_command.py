"""`windowgrad check`: whether a certificate is accepted, as text and as status."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from windowgrad.certify.check import Verdict, check
from windowgrad.errors import WindowgradError, cut

MOST = 20
"""How many clauses are printed."""


def command(certificate: Path, network: Path, console: Console) -> int:
    """The status of the command: 0 accepted, 1 rejected, 2 a file that cannot be read."""
    try:
        verdict = check(certificate, network)
    except (OSError, WindowgradError, ImportError) as error:
        console.print(f"[red]error:[/red] {escape(str(error))}")
        return 2
    if not verdict:
        console.print(f"[red]rejected:[/red] {escape(verdict.reason or '')}")
        return 1
    console.print(f"[green]accepted:[/green] {escape(said(verdict))}")
    for clause in verdict.clauses[:MOST]:
        console.print(f"  {escape(cut(' or '.join(clause), 200))}")
    if len(verdict.clauses) > MOST:
        console.print(f"  and {len(verdict.clauses) - MOST} more")
    return 0


def said(verdict: Verdict) -> str:
    over = "in real arithmetic" if verdict.arithmetic == "real" else "for every evaluation in float32"
    return f"for every input of the box, shown in {verdict.leaves} part{'s' * (verdict.leaves != 1)}, {over}:"
