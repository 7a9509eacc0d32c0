"""Faults that no mutant stands for, each with the reason."""

from collections.abc import Mapping

NOT_EXPRESSIBLE: Mapping[str, str] = {
    "pytorch/pytorch#27968": "attention does not return its weights, and there is no dropout",
    "vllm-project/vllm-metal#659": "no configuration has norms of queries and keys",
}

EQUIVALENT: Mapping[str, str] = {
    "a constant added to all rotary positions of a model": "scores depend on distances; rotate alone shows it",
    "the constant -slope * i left out of linear biases inside a model": "softmax does not see a constant of the row",
    "the same permutation of the components of queries and keys": "products do not change; rotate alone shows it",
    "a weightless RMSNorm behind the rotation instead of before it": "a rotation keeps the norm",
    "a mask filled with the lowest finite float32": "its exponential is 0 as well, except in a row that sees no key",
    "one bias added to all keys of attention, where nothing is rotated": "a constant of the row of scores",
}
