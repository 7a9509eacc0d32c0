"""Calls that have no meaning, and options that a backend says it does not have: what every component does with them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance, UnexpectedPass
from gaugeblock.conformance.diagnosis import spelled
from gaugeblock.spec.errors import GaugeblockError, PositionError


@dataclass(frozen=True)
class Malformed:
    """A call without meaning: what is wrong with it, and the error that says so.

    must: no numbers may come back; else the error should be raised, and a note says where it is not.
    """

    problem: str
    error: type[GaugeblockError]
    method: str
    positional: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)
    must: bool = True

    def raised(self, cell: Cell) -> Exception | None:
        """What the backend raises for the call."""
        try:
            first = [placed(cell, x) for x in self.positional]
            keywords = {name: placed(cell, x) for name, x in self.keywords.items()}
            cell.backend.asnumpy(getattr(cell.backend, self.method)(*first, **keywords))
        except Exception as error:
            return error
        return None


def refused(cell: Cell, calls: Iterable[Malformed]) -> None:
    """A call whose sizes contradict one another gives no numbers."""
    for call in calls:
        cell.tally.judged += 1
        if call.must and call.raised(cell) is None:
            problem = f"{call.problem}, and the call was not refused: {_shapes(call)}"
            raise cell.fail(problem, None, **(unchecked(cell) if call.error is PositionError else {}))


def unchecked(cell: Cell) -> dict[str, str]:
    """The advice for a backend that takes positions, rows and ids as they come."""
    honest = replace(cell.backend.conventions, out_of_range="undefined")
    declare = f"conventions = Conventions({spelled(honest)})"
    return {"advice": "what is out of range is not checked", "declare": declare}


def named(cell: Cell, calls: Iterable[Malformed]) -> None:
    """Where a refusal comes, it should be the error that the specification names."""
    for call in calls:
        cell.tally.judged += 1
        error = call.raised(cell)
        if error is None:
            cell.note(f"{call.problem}: not refused, should raise {call.error.__name__}")
        elif not stands_for(cell, error, call.error):
            cell.note(f"{call.problem}: {type(error).__name__}, should be {call.error.__name__}")


def unsupported(
    cell: Cell, using: Callable[[Cell, str], Any], judge: Callable[[Cell, Any], object] = Cell.judge
) -> None:
    """Call every option that is declared unsupported: it must be refused, not ignored, and not work.

    What is empty may be refused only together with a mask or a diagonal, as a kernel that reshapes them has it.
    """
    working = []
    cell.strict_empty_rows = True
    for feature in declared(cell):
        case = using(cell, feature)
        if not set(feature.split("+")) <= case.used():
            continue  # a part of it is declared unsupported as well, and is tried alone
        name = f"{cell.offer}.{feature}"
        cell.tally.judged += 1
        try:
            for one in (case, *_fuller(cell, feature, case)):
                judge(cell, one)
        except BackendRaised as raised:
            cell.note(f"{name}: refused with {type(raised.cause).__name__}")
        except Nonconformance as wrong:
            wrong.problem = f"{name} is declared unsupported, and silently does something else"
            raise
        else:
            working.append(name)
    if working:
        raise UnexpectedPass(f"declared unsupported, but right: {', '.join(working)}")


# feature -> the field of a case that asks for it
FULLER: Mapping[str, tuple[str, Any]] = {
    "mask": ("mask", "random"),
    "causal": ("causal", True),
    "token_mask": ("pads", "full"),
}


def _fuller(cell: Cell, feature: str, case: Any) -> Iterator[Any]:
    """The same empty axes with what else a call may have."""
    for option, (name, value) in FULLER.items() if feature.startswith("empty.") else ():
        unordered = name == "causal" and getattr(case, "context", False)  # two sequences have no common order
        if hasattr(case, name) and offers(cell, option) and not unordered:
            yield replace(case, **{name: value})


def declared(cell: Cell) -> list[str]:
    """The features of the cell's interface that the backend declares unsupported in the cell's dtype."""
    keys = (key.partition("@") for key in cell.backend.unsupported)
    here = [name.partition(".") for name, _, only in keys if only in ("", cell.dtype)]
    return [option for offer, _, option in here if offer == cell.offer]


def offers(cell: Cell, feature: str) -> bool:
    """Whether the backend offers a feature of the cell's interface."""
    return feature not in declared(cell)


def placed(cell: Cell, x: Any) -> Any:
    """An argument with its arrays, also those in a mapping, as the backend's own."""
    if isinstance(x, Mapping):
        return {name: placed(cell, held) for name, held in x.items()}
    return cell.backend.asarray(x.copy()) if hasattr(x, "dtype") else x


def stands_for(cell: Cell, error: Exception, wanted: type[GaugeblockError]) -> bool:
    """Whether an exception is the error wanted, or one that the backend maps to it."""
    meant = (ours for theirs, ours in cell.backend.errors.items() if isinstance(error, theirs))
    return isinstance(error, wanted) or any(issubclass(ours, wanted) for ours in meant)


def _shapes(call: Malformed) -> str:
    arrays: Inputs = {str(n): x for n, x in enumerate(call.positional) if hasattr(x, "shape")}
    mappings = [x for x in call.positional if isinstance(x, Mapping)]
    named = {name: x for held in (*mappings, call.keywords) for name, x in held.items() if hasattr(x, "shape")}
    return ", ".join([*(str(x.shape) for x in arrays.values()), *(f"{n} {x.shape}" for n, x in named.items())])
