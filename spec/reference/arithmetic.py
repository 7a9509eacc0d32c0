"""Arithmetic on bounded values as an implementation under a contract may do it."""

from dataclasses import dataclass

import numpy as np

from gaugeblock.spec.precision import Contract, Format, Level
from gaugeblock.spec.reference.bounded import Bounded, Real, inherited, is_exact_sum, is_held, matmul_size, rounded


@dataclass(frozen=True)
class Arithmetic:
    """The operations in the accumulation format of a contract; each rounds once, none changes the exact value."""

    contract: Contract

    @property
    def acc(self) -> Format:
        return self.contract.acc

    def add(self, a: Bounded, b: Bounded) -> Bounded:
        """a + b, one rounding: err_a + err_b, then rounded. Adding an exact zero rounds nothing."""
        value, err = a.value + b.value, a.err + b.err
        trivial = ((a.value == 0) & (a.err == 0)) | ((b.value == 0) & (b.err == 0))
        return Bounded(value, np.where(trivial, err, rounded(value, err, self.acc)))

    def sub(self, a: Bounded, b: Bounded) -> Bounded:
        """a - b, one rounding."""
        return self.add(a, Bounded(-b.value, b.err))

    def mul(self, a: Bounded, b: Bounded) -> Bounded:
        """a b, one rounding: |a| err_b + |b| err_a + err_a err_b, then rounded."""
        value = a.value * b.value
        err = np.abs(a.value) * b.err + np.abs(b.value) * a.err + a.err * b.err
        return Bounded(value, rounded(value, err, self.acc))

    def matmul(self, a: Bounded, b: Bounded) -> Bounded:
        """a @ b in any order, with or without FMA: inherited + n u sum |a||b| + n eta, exact where certified.

        a (..., T, D), b (..., D, S) -> (..., T, S). Source: Jeannerod and Rump 2013, theorem 2.1.
        """
        n = a.value.shape[-1]
        size = matmul_size(a, b)
        grown = inherited(a, b) + n * self.acc.u * size + np.where(size > 0, n * self.acc.eta, 0.0)
        err = np.where(is_exact_sum(a, b, size, self.acc), 0.0, grown)
        return Bounded(a.value @ b.value, np.where(size <= self.acc.max, err, np.inf))

    def store(self, x: Bounded, level: Level) -> Bounded:
        """x, perhaps rounded to the io format: where the contract's level admits it at this point."""
        return self.result(x) if self.contract.rounds_at(level) else x

    def result(self, x: Bounded) -> Bounded:
        """x rounded once to the io format; a number without error that the format holds is not changed."""
        io = self.contract.io
        kept = (x.err == 0) & is_held(x.value, io)
        return Bounded(x.value, np.where(kept, 0.0, rounded(x.value, x.err, io)))


def exact(value: Real | float) -> Bounded:
    """A number without error: a constant, or a parameter of the call that every format holds exactly."""
    value = np.asarray(value, np.float64)
    return Bounded(value, np.zeros_like(value))
