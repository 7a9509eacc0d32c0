"""The figure of the gradient's size by depth, on fixed seeds."""

import numpy as np
import pytest
from gradient_norms import figure


@pytest.mark.parametrize("L", [2, 12])
def test_the_last_gradient_grows_with_the_root_of_the_depth(L: int) -> None:
    found = figure(L)
    assert abs(found.measured - found.law) < 0.1, found
    assert found.false_alarm(0.1) < 1e-4


def test_an_alarm_is_as_likely_as_it_says() -> None:
    """The standard error is that of repetitions; within two of them lie 95 % of honest means."""
    means = [figure(3, M=16, samples=20, seed=n) for n in range(40)]
    assert 0.7 < np.std([f.measured for f in means]) / np.mean([f.error for f in means]) < 1.4
    assert means[0].false_alarm(1.96 * means[0].error) == pytest.approx(0.05, abs=1e-3)
