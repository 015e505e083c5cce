"""Numba's passes over a function, with less around them and less done between them.

After every pass that changes a function Numba finds out where each variable lives. What is compiled here asks for that once, at
the end, if at all; nor are loops changed that are as they should be. To have each variable set in one place it goes through
the whole function for each that is not, where most blocks do not mention it. And whatever a type follows from is looked at with
Python's warnings being kept, each time.
"""

from __future__ import annotations

from typing import Any

from numba.core import event, interpreter, ssa, transforms
from numba.core.compiler_machinery import PassManager, _pass_registry
from numba.core.errors import ForceLiteralArg, NumbaError, TypingError
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.utils import chain_exception

post_process = PostProcessor.run
without_exits = interpreter.peep_hole_delete_with_exit
run_ssa, rewrite_blocks = ssa._run_ssa, ssa._run_block_rewrite
simple: set[Any] = set()  # where the blocks of functions jump, if each loop jumps back from one place
names: dict[int, set[str]] = {}  # of the variables in each block of the function that is being changed


class Passes(PassManager):  # type: ignore[misc]  # numba has no types
    """Passes that have been chosen, of a pipeline of Numba."""

    def __init__(self, like: Any, chosen: list[Any]) -> None:
        super().__init__(like.pipeline_name)
        self.passes = chosen
        self.finalize()

    def _runPass(self, index: int, pss: Any, internal_state: Any) -> None:  # noqa: N802  # Numba's name
        """Numba's, less checks of the passes themselves, texts for who listens, and times."""
        pss.analysis, about = self._analysis, internal_state.func_id
        with event.trigger_event("numba:run_pass", data={"name": f"{pss.name()} [{about.func_qualname}]"}):
            changed = [run(internal_state) for run in (pss.run_initialization, pss.run_pass, pss.run_finalizer)]
        if any(changed) and _pass_registry.get(type(pss)).mutates_CFG:
            PostProcessor(internal_state.func_ir).run()


def brief_post_process(of: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Where variables live is found out when somebody asks. Only generators ask which are alive where a block begins."""
    function = of.func_ir
    if function.is_generator:
        post_process(of, emit_dels, extend_lifetimes)
        return
    shape = tuple((label, tuple(block.terminator.get_targets())) for label, block in function.blocks.items())
    if shape not in simple:
        function.blocks = transforms.canonicalize_cfg(function.blocks)
        if len(function.blocks) == len(shape):  # else blocks were added, so that loops jump back from one place
            simple.add(shape)
    function.generator_info = None
    function.variable_lifetime = VariableLifetime(function.blocks)
    if emit_dels:
        of._insert_var_dels(extend_lifetimes=extend_lifetimes)


def brief_without_exits(function: Any) -> Any:
    """What Numba drops of `with` statements; it looks for that in every one."""
    return without_exits(function) if function.func_id.code.co_exceptiontable else function


def run_brief_ssa(blocks: Any) -> Any:
    names.clear()
    for label, block in blocks.items():
        names[label] = {variable.name for statement in block.body for variable in statement.list_vars()}
    return run_ssa(blocks)


def rewrite_mentioning(blocks: Any, states: Any, handler: Any) -> Any:
    """The blocks in which the variable has been replaced; the others as they are."""
    some = {label: block for label, block in blocks.items() if states["varname"] in names[label]}
    changed = rewrite_blocks(some, states, handler)
    return {label: changed.get(label, block) for label, block in blocks.items()}


class Context:
    """What is being done, for the text of an error. Numba's is a generator, which takes longer to enter than most of that."""

    __slots__ = ("given", "text")

    def __init__(self, text: str, *given: Any, **named: Any) -> None:
        self.text, self.given = text, (given, named)

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, NumbaError):
            given, named = self.given
            error.add_context(self.text.format(*given, **named) if given or named else self.text)


def propagate(network: Any, inferred: Any) -> list[Any]:
    """Find types by all constraints; gives what was wrong. Warnings are kept once, not for each of them."""
    wrong = []
    with inferred.warnings.catch_warnings():
        for constraint in network.constraints:
            try:
                constraint(inferred)
            except ForceLiteralArg as error:
                wrong.append(error)
            except TypingError as error:
                wrong.append(chain_exception(TypingError(str(error), loc=constraint.loc, highlighting=False), error))
    return wrong
