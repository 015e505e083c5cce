"""Moments of the cells of a window about its smooth maximum y, by the rules of the operator, and how they move.

With u = x − y, A_k(v) = Σ p·uᵏ·v over the cells of a window and B_k = Σ p·uᵏ over all that counts, padded zeros too:

    y moves by         A_0(ex) + eβ·B_1/β
    B_k moves by       β·(A_k(ex) − B_k·A_0(ex)) + k·(A_{k−1}(ex) − B_{k−1}·A_0(ex)) + eβ·(B_{k+1} − B_1·B_k − k·B_1/β·B_{k−1})
    A_k(v) moves by    β·(A_k(v·ex) − A_k(v)·A_0(ex)) + k·(A_{k−1}(v·ex) − A_{k−1}(v)·A_0(ex))
                       + eβ·(A_{k+1}(v) − B_1·A_k(v) − k·B_1/β·A_{k−1}(v))

B_k is the forward rule of order k, and the second line its jvp, so A_k follows from the rules of orders up to k. All is about
y: no digits are lost where the cells are far from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from windowgrad.params import SharpParams
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import grid


class Moments(NamedTuple):
    """A_k, B_k, how they move, and the adjoints of that."""

    rules: Op
    params: SharpParams
    x: Any
    beta: Any

    def over(self, beta: Any) -> Any:
        """β, or its tangent, as an array that meets the outputs of its channel."""
        beta = grid(beta)
        return beta.reshape((*beta.shape, *(1,) * self.params.kept_axes)) if len(beta.shape) else beta

    def total(self, k: int) -> Any:
        """B_k"""
        return self.rules.forward(replace(self.params, order=k), self.x, self.beta) if k else 1

    def total_moves(self, k: int, ex: Any) -> Any:
        """B_k along ex; y for k = 0."""
        return self.rules.jvp(replace(self.params, order=k), self.x, self.beta, grid(ex), grid(self.beta * 0))

    def total_back(self, k: int, g: Any) -> Any:
        return self.rules.vjp(replace(self.params, order=k), self.x, self.beta, grid(g), needs=(True, False))[0]

    def of(self, k: int, v: Any) -> Any:
        """A_k(v)"""
        mean = self.total_moves(0, v)
        if not k:
            return mean
        moved = self.total_moves(k, v) - (k * (self.of(k - 1, v) - self.total(k - 1) * mean) if k > 1 else 0)
        return moved / self.over(self.beta) + self.total(k) * mean

    def back(self, k: int, g: Any) -> Any:
        """Its adjoint."""
        if not k:
            return self.total_back(0, g)
        part = g / self.over(self.beta)
        found = self.total_back(k, part) + self.total_back(0, g * self.total(k))
        return found - k * (self.back(k - 1, part) - self.total_back(0, part * self.total(k - 1))) if k > 1 else found

    def moves(self, k: int, v: Any, ex: Any) -> Any:
        """A_k(v) along ex."""
        found = self.over(self.beta) * self.covariance(k, v, ex)
        return found + k * self.covariance(k - 1, v, ex) if k else found

    def covariance(self, k: int, v: Any, ex: Any) -> Any:
        return self.of(k, v * ex) - self.of(k, v) * self.of(0, ex)

    def moves_back(self, k: int, v: Any, g: Any) -> Any:
        """The adjoint of that."""
        found = self.spread(k, v, g * self.over(self.beta))
        return found + self.spread(k - 1, v, g * k) if k else found

    def spread(self, k: int, v: Any, g: Any) -> Any:
        return v * self.back(k, g) - self.back(0, g * self.of(k, v))

    def turned(self, k: int, moment: Callable[[int], Any]) -> Any:
        """How A_k(v) or B_k moves with β."""
        mean = self.total(1)
        found = moment(k + 1) - mean * moment(k)
        return found - k * mean / self.over(self.beta) * moment(k - 1) if k else found
