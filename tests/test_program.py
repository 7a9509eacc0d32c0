"""The derivatives of a composition by the chain rule, against pushing every element through all that follows it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from test_reference_blocks import some_cases

from gaugeblock.spec.precision import FLOAT64
from gaugeblock.spec.reference.bounded import Bounded
from gaugeblock.spec.reference.program import Step, all_slopes, carried, derivative, run

ALIKE = 1e-12  # of the largest slope: both are the same sums, of some hundred terms, in another order


def programs() -> Iterator[tuple[Sequence[Step], Mapping[str, Any]]]:
    """Blocks of all kinds and their intermediates; ALiBi is among them, whose biases are no rows of the batch."""
    for case in some_cases(3):
        inputs = case.inputs(FLOAT64)
        yield case.program(inputs), run(case.program(inputs), case.given(inputs))


def test_the_chain_rule_gives_what_pushing_through_gives() -> None:
    in_rows = whole = 0
    for program, known in programs():
        made, end = all_slopes(program, known), known[program[-1].name]
        assert set(made) == {step.name for step in program}
        for n, step in enumerate(program[:-1]):
            size = known[step.name].size
            pushed = derivative(program, n, known, np.arange(size)).reshape(size, end.size).T
            got = as_whole(made[step.name])
            assert np.all(np.abs(got - pushed) <= ALIKE * np.max(np.abs(pushed))), step.name
            in_rows, whole = in_rows + (len(made[step.name]) > 1), whole + (len(made[step.name]) == 1)
    assert in_rows > 50 and whole > 50


def test_paths_of_all_kinds_add_up() -> None:
    """A step read twice, one that mixes the rows, one that nothing reads, one without elements, one row for all."""
    a = np.arange(1.0, 7.0).reshape(3, 2)
    program = (
        step("a", (), lambda: a),
        step("unread", ("a",), lambda a: 5 * a),
        step("empty", (), lambda: a[:, :0]),
        step("shared", (), lambda: a[:1], rows=False),
        step("square", ("a", "a"), lambda x, y: x * y),
        step("turned", ("square",), lambda x: x[..., ::-1, :] + 0 * x, rows=False),
        step("sum", ("turned", "shared", "square"), lambda x, y, z: x + 7 * y + 3 * z),
        step("end", ("sum", "empty"), lambda x, nothing: 2 * x),
    )
    known = run(program, {})
    made = all_slopes(program, known)
    assert set(made) == {"a", "shared", "square", "turned", "sum", "end"}
    assert [len(made[name]) for name in ("end", "sum", "turned", "square", "a")] == [3, 3, 3, 1, 1]
    own, other = np.eye(6), np.eye(6)[[4, 5, 2, 3, 0, 1]]
    assert np.allclose(made["a"][0], (6 * own + 2 * other) @ np.diag(2 * a.ravel()), rtol=ALIKE)
    assert np.allclose(made["shared"][0], 14 * np.tile(np.eye(2), (3, 1)), rtol=ALIKE)


def test_errors_are_carried_by_the_sizes_of_slopes() -> None:
    slopes = np.array([[[1.0, -2.0], [0.0, 3.0]], [[0.5, 0.0], [0.0, 0.0]]])  # two rows, two by two
    b = np.array([[10.0, 1.0], [4.0, 1.0]])
    assert carried(slopes, b).tolist() == [[12.0, 3.0], [2.0, 0.0]]
    assert np.all(np.isinf(carried(slopes, np.array([[10.0, np.inf], [4.0, 1.0]]))))


def step(name: str, reads: tuple[str, ...], value: Any, *, rows: bool = True) -> Step:
    """One without errors."""
    return Step(name, reads, value, lambda _, *x: Bounded(value(*x), np.zeros_like(value(*x))), rows=rows)


def as_whole(slopes: Any) -> Any:
    """(R, m, s) as a matrix of everything by everything."""
    rows, m, s = slopes.shape
    matrix = np.zeros((rows * m, rows * s))
    for r in range(rows):
        matrix[r * m : (r + 1) * m, r * s : (r + 1) * s] = slopes[r]
    return matrix
