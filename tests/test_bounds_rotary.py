"""The bounds of rotation against adversaries that round on purpose, and against one another."""

from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from gaugeblock.conformance.recipes.rotary import SCALINGS
from gaugeblock.conformance.strategies.rotary import PARTIAL, POOL, SLIM, RotaryCase
from gaugeblock.spec.config import LAYOUTS, NTK, Linear, Llama3, YaRN
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import EXACT, FLOAT32, FLOAT64, FORMATS, HALF, Contract, Format, Level
from gaugeblock.spec.reference.rotary import norms, pairs

Real = Any  # arrays and scalars of float64
Rounding = Callable[[Real], Real]

BASES = (10000.0, 500000.0, 100.0, 10000.3)
RECIPES = ("edges", "odd-2048", "thousands", "far", "anywhere", "last", "rows")


def some_cases() -> Iterator[RotaryCase]:
    for n, (d, scaling) in enumerate(product([*POOL, *SLIM, *PARTIAL], ("", *SCALINGS))):
        yield RotaryCase(
            B=d.B,
            H=d.H,
            T=d.T,
            D=d.D,
            rotary_dim=d.R,
            positions=RECIPES[n % len(RECIPES)],
            base=BASES[n % len(BASES)] if not scaling.startswith("yarn") else BASES[n % 3],
            layout=LAYOUTS[n % 2],
            scaling=scaling,
            seed=n,
        )


def to(io: Format) -> Rounding:
    return lambda x: np.asarray(x).astype(io.dtype).astype(np.float64)


class Adversary:
    """A correct implementation that rounds wherever the contract lets it, and leans where it may."""

    def __init__(self, case: RotaryCase, contract: Contract, seed: int) -> None:
        self.case, self.contract, self.rng = case, contract, np.random.default_rng(seed)
        self.wide = FLOAT64 if contract.io is FLOAT64 else FLOAT32
        self.f, self.acc, self.io = to(self.wide), to(contract.acc), to(contract.io)
        half = contract.io.name in HALF
        self.maybe = self.io if half and contract.level <= Level.FUSED and self.rng.random() < 0.8 else self.acc

    def lean(self, x: Real, units: float) -> Real:
        """x off by up to so many units, all one way or at random."""
        way = self.rng.choice([-1.0, 1.0]) if self.rng.random() < 0.5 else self.rng.choice([-1.0, 1.0], np.shape(x))
        return np.asarray(x * (1 + way * units * self.wide.u))

    def power(self, base: Real, e: Real) -> Real:
        f = self.f
        if self.rng.random() < 0.5:
            raised = np.where(e == 0, 1.0, f(self.lean(np.power(f(base), f(e)), 7)))
            return f(1 / raised)
        argument = f(f(e) * f(self.lean(np.log(f(base)), 1)))
        return np.where(e == 0, 1.0, f(self.lean(np.exp(-argument), 7)))

    def frequencies(self) -> Real:
        f, R, base = self.f, self.case.dims.R, np.float64(self.case.base)
        e = np.arange(0, R, 2) / R
        w = self.power(base, e)
        match self.case.rule:
            case None:
                return w
            case Linear(factor):
                return f(w / f(np.float64(factor))) if self.rng.random() < 0.5 else f(w * f(1 / f(np.float64(factor))))
            case NTK(alpha):
                if R == 2:
                    return w
                q, a = np.float64(R / (R - 2)), np.float64(alpha)
                if self.rng.random() < 0.5:
                    return self.power(f(base * f(self.lean(np.power(f(a), f(q)), 7))), e)
                return f(w * self.power(a, e * q))
            case YaRN() | Llama3() as rule:
                share = self.share(rule, w)
                one = f(f(w / f(np.float64(rule.factor))) * share) + f(w * f(1 - share))
                other = w * f(1 + f(share * f(f(1 / f(np.float64(rule.factor))) - 1)))
                return f(one if self.rng.random() < 0.5 else other)

    def share(self, rule: YaRN | Llama3, w: Real) -> Real:
        f, R = self.f, self.case.dims.R
        tau = f(np.float64(2 * np.pi))
        if isinstance(rule, Llama3):
            turns = f(f(np.float64(rule.original)) / f(tau / w))
            return 1 - np.clip(f(f(turns - rule.low) / f(np.float64(rule.high - rule.low))), 0, 1)
        ratio = f(np.float64(rule.original) / f(tau * np.array([rule.fast, rule.slow], np.float64)))
        logs = f(self.lean(np.log(ratio), 1)), f(self.lean(np.log(f(np.float64(self.case.base))), 1))
        low, high = f(f(R * logs[0]) / f(2 * logs[1]))
        low, high = (np.floor(low), np.ceil(high)) if rule.truncate else (low, high)
        low, high = max(low, 0.0), min(high, R - 1.0)
        high = high if high > low else low + 0.001
        return np.clip(f(f(np.arange(R // 2) - low) / f(np.asarray(high - low))), 0, 1)

    def magnitude(self) -> Real:
        rule, f = self.case.rule, self.f
        if not isinstance(rule, YaRN) or (rule.attention_factor is None and rule.factor <= 1):
            return np.float64(1.0)
        if rule.attention_factor is not None:
            return f(np.float64(rule.attention_factor))
        return f(1 + f(f(np.float64(0.1)) * f(self.lean(np.log(np.float64(rule.factor)), 1))))

    def table(self, positions: Any) -> tuple[Real, Real]:
        angles = self.f(np.atleast_2d(positions)[:, None, :, None] * self.frequencies())
        m, made = self.magnitude(), []
        for function in (np.cos, np.sin):
            off = np.where(angles == 0, 0.0, self.rng.choice([-7.0, 7.0], angles.shape) * self.wide.u)
            made.append(self.maybe(self.f(m * self.f(function(angles) + off))))
        return made[0], made[1]

    def rotated(self, x: Real, positions: Any) -> Real:
        cos, sin = self.table(positions)
        first, second = pairs(self.case.dims, self.case.order)
        out, a, b = x.copy(), x[..., first], x[..., second]
        store = self.maybe if self.rng.random() < 0.7 else lambda y: y  # products rounded, or fused into the sum
        products = [[self.acc(u * v) if store is self.maybe else u * v for v in (cos, sin)] for u in (a, b)]
        out[..., first] = self.io(self.acc(store(products[0][0]) - store(products[1][1])))
        out[..., second] = self.io(self.acc(store(products[1][0]) + store(products[0][1])))
        return out


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("level", [level for level in Level if level is not Level.NAIVE])
def test_bound_holds_for_any_form(dtype: str, level: Level) -> None:
    io = FORMATS[dtype]
    contract = Contract(io, level)
    worst, longest, checked = 0.0, 0.0, 0
    for seed, case in enumerate(some_cases()):
        inputs = case.inputs(io)
        x = inputs["x"].astype(np.float64)
        want, own = (case.expected(inputs, c, Conventions()) for c in (contract, EXACT))
        call: dict[str, Any] = {**inputs, **case.options()}
        lengths, sure = norms(**call, contract=contract), norms(**call)
        allowed = want.err + own.err
        for turn in range(3):
            got = Adversary(case, contract, 10 * seed + turn).rotated(x, inputs["positions"])
            error = np.abs(got - want.value)
            assert np.all(error <= allowed), (case, turn, float(np.max(error / np.where(allowed > 0, allowed, 1))))
            first, second = pairs(case.dims, case.order)
            off = np.abs(np.hypot(got[..., first], got[..., second]) - lengths.value)
            room = lengths.err + sure.err
            assert np.all(off <= room), (case, turn, float(np.max(off / room)))
            worst = max(worst, float(np.max(error / np.where(allowed > 0, allowed, 1))))
            longest = max(longest, float(np.max(off / np.where(room > 0, room, 1))))
            checked += 1
    assert worst > 0.3 and longest > 0.2, "the adversary does not come near the bound"
    assert checked > 300


def test_a_looser_level_never_has_a_smaller_bound() -> None:
    for case in some_cases():
        for name in HALF:
            inputs = case.inputs(FORMATS[name])
            bounds = [
                case.expected(inputs, Contract(FORMATS[name], level), Conventions()).err for level in sorted(Level)
            ]
            for looser, tighter in pairwise(bounds):
                assert np.all(tighter <= looser * (1 + 1e-12)), case
