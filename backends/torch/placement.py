"""Placement in PyTorch, on the meta device: its tensors have a shape and a dtype, and nothing that could be read."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gaugeblock.backends.torch.arrays import TorchArrays
from gaugeblock.spec.errors import GaugeblockError, PlacementError, refuse
from gaugeblock.spec.placement import Placement

META = torch.device("meta")
READERS = (Tensor.numpy, Tensor.__array__, Tensor.tolist, Tensor.item, Tensor.__bool__)
# operations whose result, or its shape, follows from values; by a bool array is indexed where it is true
DATA = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
INDEXING = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default)


class TorchPlacement(TorchArrays, Placement):
    """Every operation is looked at as it is made, before a kernel runs."""

    @contextmanager
    def dry(self) -> Iterator[Self]:
        other = copy(self)
        other.device = META
        with _Calls(), _Operations():  # type: ignore[no-untyped-call]
            yield other


class _Calls(TorchFunctionMode):
    """Refuses the methods that hand values to Python, some of which end before there is an operation."""

    def __torch_function__(self, f: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        if f in READERS:
            raise _misplaced(f"a value is read by {f.__name__}")
        return f(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):
    """Refuses operations that read values, take an array of the host or make one; a number is no array."""

    def __torch_dispatch__(self, f: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = kwargs or {}
        selects = f in INDEXING and any(x is not None and x.dtype == torch.bool for x in args[1])
        leaves = f == torch.ops.aten._to_copy.default and given.get("device") not in (None, META)
        if selects or leaves or (any(tag in f.tags for tag in DATA) and f not in INDEXING):
            raise _misplaced(f"a value is read by {f}")
        _stay(f"{f} takes", (args, given))
        made = f(*args, **given)
        _stay(f"{f} makes", made)
        return made


def _stay(what: str, arrays: Any) -> None:
    leaves: Iterable[Any] = tree_leaves(arrays)
    for x in leaves:
        if isinstance(x, Tensor) and x.device != META and x.dim() > 0:
            raise _misplaced(f"{what} an array {tuple(x.shape)} on {x.device}")


def _misplaced(problem: str) -> GaugeblockError:
    return refuse(PlacementError, "MODEL-PLACEMENT", problem, "dry")
