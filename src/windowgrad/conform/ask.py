"""Ask an implementation: from a case to a result. Whatever an adapter or a worker does, it is one result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from windowgrad.conform.adapter import NO_MASKS, Implementation, Masking, Together
from windowgrad.conform.answers import answer_of
from windowgrad.conform.case import Array, Case
from windowgrad.conform.expected import compared
from windowgrad.conform.process import Worker
from windowgrad.conform.results import Result
from windowgrad.conform.text import printable

Answers = dict[tuple[int, str], dict[str, Array]]
Question = tuple[int, Case, str]
T = TypeVar("T")


class AdapterError(Exception):
    """A method of an adapter raised an error, or returned a wrong type."""


def of_adapter(adapter: Implementation, method: str, kind: type[T], *given: Any) -> T:
    """What a method of an adapter says."""
    try:
        found = getattr(adapter, method)(*given)
        if isinstance(found, kind):
            return found
        raise AdapterError(f"the adapter's {method} returned {type(found).__name__} instead of {kind.__name__}")
    except AdapterError:
        raise
    except (Exception, SystemExit) as error:
        try:
            words = f"{type(error).__name__}: {error}"
        except Exception:
            words = type(error).__name__
        raise AdapterError(printable(f"the adapter's {method} raised {words}")) from None


def why_not(adapter: Implementation, case: Case, check: str) -> str | None:
    """None, or why the implementation's documentation does not have this."""
    if case.where is not None and not (isinstance(adapter, Masking) and adapter.masks):
        return NO_MASKS
    why = of_adapter(adapter, "supports", object, case, check)
    if why is None or isinstance(why, str):
        return None if why is None else printable(why)
    raise AdapterError(f"the adapter's supports returned {type(why).__name__} instead of None or str")


def unsupported(adapter: Implementation, question: Question) -> Result | None:
    """The result of a question that need not be asked, or None."""
    number, case, check = question
    try:
        why = why_not(adapter, case, check)
    except AdapterError as error:
        return Result(case, number, check, "crashes", message=str(error))
    return None if why is None else Result(case, number, check, "unsupported", message=why)


def asked(adapter: Implementation, worker: Worker, question: Question, right: dict[str, Array]) -> Result:
    """The result of one question, by a program of its own."""
    number, case, check = question
    try:
        program = of_adapter(adapter, "program", str, case, check)
    except AdapterError as error:
        return Result(case, number, check, "crashes", message=str(error))
    answer = worker.ask(program)
    if "crash" in answer:
        words = "; ".join([answer["crash"], *answer.get("said", [])])
        return Result(case, number, check, "crashes", message=printable(words))
    if "error" in answer:
        return Result(case, number, check, "refuses", message=printable(str(answer["error"])))
    return judged(question, right, answer.get("arrays"))


def judged(question: Question, right: dict[str, Array], described: Any, together: bool = False) -> Result:
    number, case, check = question
    try:
        got = [answer_of(part) for part in described]
    except (TypeError, ValueError) as error:
        return Result(case, number, check, "crashes", message=printable(f"its answer cannot be read: {error}"))
    difference = compared(case, check, right, got)
    return Result(case, number, check, "differs" if difference else "agrees", difference, together=together)


def results(
    adapter: Implementation, worker: Worker, questions: list[Question], right: Answers, each: Callable[[int], None]
) -> Iterator[Result]:
    """The results of all questions, each as soon as it is there."""
    groups: dict[str, list[Question]] = {}
    for question in questions:
        if isinstance(adapter, Together):
            groups.setdefault(question[2], []).append(question)
            continue
        yield asked(adapter, worker, question, right[question[0], question[2]])
        each(1)
    for same in groups.values():
        assert isinstance(adapter, Together)
        same.sort(key=lambda question: question[1].op)  # alike operators make one kernel
        for start in range(0, len(same), adapter.at_once):
            for result in asked_together(adapter, worker, same[start : start + adapter.at_once], right):
                yield result
                each(1)


def asked_together(adapter: Together, worker: Worker, some: list[Question], right: Answers) -> Iterator[Result]:
    """Some questions in one program. One that it leaves open is asked by itself, and so are all in the end if it fails."""
    if len(some) > 1:
        try:
            program = of_adapter(adapter, "together", str, [case for _, case, _ in some], some[0][2])
        except AdapterError:
            program = "got = []"
        answer = worker.ask(program, len(some))
        found = answer.get("answers")
        if isinstance(found, list) and len(found) == len(some):
            for question, described in zip(some, found, strict=True):
                wanted = right[question[0], question[2]]
                yield (
                    asked(adapter, worker, question, wanted)
                    if described is None
                    else judged(question, wanted, described, together=True)
                )
            return
        if "error" in answer:
            half = len(some) // 2
            yield from asked_together(adapter, worker, some[:half], right)
            yield from asked_together(adapter, worker, some[half:], right)
            return
    for question in some:
        yield asked(adapter, worker, question, right[question[0], question[2]])
