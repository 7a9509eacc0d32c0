"""What the NumPy backend promises beside the specification: its seams, and taps that stay as they were."""

from collections import Counter

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.spec import weights as names
from gaugeblock.spec.config import AttentionConfig, BlockConfig, ModelConfig, StackConfig

ATTENTION = AttentionConfig(width=4, heads=2, kv_heads=1, head_width=2, value_width=3)
BLOCK = BlockConfig(attention=ATTENTION, causal=True, ffn_width=5)
CONFIG = ModelConfig(decoder=StackConfig(block=BLOCK, layers=1, vocabulary=7), tied=True)


def test_no_component_hides_a_seam_of_another() -> None:
    """The components share one object, so that two seams of one name would be one seam."""
    own = [c for c in NumpyBackend.__mro__ if c.__module__.startswith("gaugeblock.backends.numpy")]
    seams = Counter(n for c in own for n in vars(c) if n.startswith("_") and n != "_abc_impl" and n[:2] != "__")
    assert len(seams) > 50
    assert not [name for name, count in seams.items() if count > 1]


def test_what_a_step_showed_is_not_written_over() -> None:
    rng = np.random.default_rng(0)
    backend = NumpyBackend()
    model = backend.load({n: rng.normal(size=s) for n, s in names.shapes(CONFIG).items()}, CONFIG)
    (_, cache), taps = backend.traced("step", model, np.array([[1, 2]]), backend.start(model, 1, 3))
    before = {name: tap.copy() for name, tap in taps.items()}
    cache = backend.truncate(cache, 1)
    backend.step(model, np.array([[5, 6]]), cache)
    assert all(np.array_equal(taps[name], tap) for name, tap in before.items())
