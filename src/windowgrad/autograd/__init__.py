"""Automatic differentiation: the tape, the transforms (`grad`, `jvp`, `vjp`, …) and the array operators a network needs."""

from windowgrad.autograd.checking import check_grads
from windowgrad.autograd.gradients import Gradients
from windowgrad.autograd.tape import Node, Tape, Var
from windowgrad.autograd.transforms import directional, grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp

__all__ = [
    "Gradients",
    "Node",
    "Tape",
    "Var",
    "check_grads",
    "directional",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "value_and_grad",
    "vjp",
]
