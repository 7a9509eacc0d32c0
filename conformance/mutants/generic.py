"""Generic mutants: every small change of a file of the NumPy backend, and whether any check notices."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from multiprocessing import get_context
from pathlib import Path
from random import Random
from time import perf_counter
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from gaugeblock.conformance.checks import SUITE_IS_WRONG, Plan, registry, run
from gaugeblock.conformance.mutants.ast_mutation import DEMOTED, SCALED, Mutation, mutations
from gaugeblock.conformance.mutants.equivalent import EQUIVALENT
from gaugeblock.conformance.records import WRONG
from gaugeblock.conformance.selection import of_backend
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import COMPONENTS
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import HALF

PACKAGE = "gaugeblock.backends.numpy"
DTYPES = ("float32", "float64", *HALF)
OF_COMPONENT = {"rotary": "positions", "decoder": "model", "stack": "model", "model": "model"}
TIMEOUT = 120.0


@dataclass(frozen=True)
class Found:
    """A generic mutant and what became of it.

    fate is killed, timeout, equivalent or survives; by the check and dtype that killed, or why it is equivalent.
    """

    file: str
    line: int
    kind: str
    before: str
    after: str
    fate: str
    by: str
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """As what json.dumps takes."""
        return asdict(self)

    @property
    def diff(self) -> str:
        """The statement before and after."""
        return "\n".join([*(f"-{x}" for x in self.before.splitlines()), *(f"+{x}" for x in self.after.splitlines())])


class TooLong(BaseException):
    """A mutant ran too long; no Exception, so that nothing takes it for what a backend raises."""


def sample(module: str, count: int | None, seed: int) -> list[Mutation]:
    """The mutations of a module of the NumPy backend, or so many of them, drawn by the seed.

    Raises ConfigError if there is no such module.
    """
    found = mutations(path(module).read_text(encoding="utf-8"))
    if count is None or count >= len(found):
        return found
    chosen = sorted(Random(seed).sample(range(len(found)), count))
    return [found[n] for n in chosen]


def path(module: str) -> Path:
    """The file of a module of the NumPy backend."""
    spec = find_spec(f"{PACKAGE}.{module}") if module.isidentifier() else None
    if spec is None or spec.origin is None:
        raise ConfigError(f"mutate: the NumPy backend has no module {module!r}")
    return Path(spec.origin)


def component(module: str) -> str:
    """The component whose checks are to notice a change of a module; "" for a module that serves all."""
    word = OF_COMPONENT.get(module, module)
    return word if word in COMPONENTS else ""


def survey(
    module: str, chosen: Sequence[Mutation], *, profile: str = "default", jobs: int = 1, timeout: float = TIMEOUT
) -> Iterator[Found]:
    """What becomes of each mutation, as it comes."""
    tasks = [(module, mutation, profile, timeout) for mutation in chosen]
    if jobs <= 1:
        yield from (judged(*task) for task in tasks)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from (done.result() for done in as_completed([pool.submit(judged, *task) for task in tasks]))


def judged(module: str, mutation: Mutation, profile: str = "default", timeout: float = TIMEOUT) -> Found:
    """Run the checks of the module's component until one fails."""
    start = perf_counter()
    reason = EQUIVALENT.get((module, mutation.before, mutation.after), "")
    touched.clear()
    fate, by = ("equivalent", reason) if reason else _fate(module, mutation, profile, timeout)
    if fate == "survives" and mutation.kind.startswith("result") and not touched:
        fate, by = "equivalent", "no floating-point numbers pass there"
    seconds = round(perf_counter() - start, 2)
    name = f"backends/numpy/{module}.py"
    return Found(name, mutation.line, mutation.kind, mutation.before, mutation.after, fate, by, seconds)


def _fate(module: str, mutation: Mutation, profile: str, timeout: float) -> tuple[str, str]:
    try:
        with _limit(timeout):
            by = _killer(component(module), changed(module, mutation.source), profile)
    except TooLong:
        return "timeout", f"ran longer than {timeout:.0f} s"
    except Exception as error:  # it cannot even be made
        return "killed", f"raised {type(error).__name__} when it was imported"
    return ("killed", by) if by else ("survives", "")


def _killer(about: str, make: type[Backend], profile: str) -> str:
    mine = [c for c in registry().values() if (not about or c.component == about) and of_backend(c, make())]
    for dtype in DTYPES:
        for check in mine:
            record = run(check, make(), dtype, Plan(profile, shrink=False))
            if record.outcome in WRONG and not record.reason.startswith(SUITE_IS_WRONG):
                return f"{check.name} {dtype}"
    return ""


def changed(module: str, source: str) -> type[Backend]:
    """The NumPy backend with another source for one of its modules; the backend itself stays as it is."""
    kept = {name: held for name, held in sys.modules.items() if name == PACKAGE or name.startswith(f"{PACKAGE}.")}
    parent = import_module(PACKAGE.rpartition(".")[0])
    finder = _Finder(f"{PACKAGE}.{module}", source)
    before = getattr(parent, "numpy", None)
    for name in kept:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        made: type[Backend] = import_module(PACKAGE).NumpyBackend
        return made
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
            del sys.modules[name]
        sys.modules.update(kept)
        if before is not None:
            setattr(parent, "numpy", before)  # noqa: B010  # a module, which has no such attribute for a type checker


class _Finder(MetaPathFinder, Loader):
    """Loads one module from a text."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname == self.name else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(HELPERS)
        exec(compile(self.source, f"<mutant of {self.name}>", "exec"), vars(module))


touched: list[str] = []  # the helpers that have changed a number
NARROW = {np.dtype(np.float64): np.float32, np.dtype(np.float32): ml_dtypes.bfloat16}


def _scaled(x: Any, factor: float) -> Any:
    """Arrays and numbers times a factor; anything else as it is."""
    if isinstance(x, float):
        made: Any = x * factor
    elif isinstance(x, np.ndarray | np.generic) and x.dtype.kind == "f":
        made = np.multiply(x, x.dtype.type(factor))
    else:
        return x
    return _noted(SCALED, x, made)


def _demoted(x: Any) -> Any:
    """Arrays and numbers rounded to a format of half the width, and read back; anything else as it is."""
    if isinstance(x, float):
        return _noted(DEMOTED, x, float(np.float32(x)))
    if not isinstance(x, np.ndarray | np.generic) or x.dtype not in NARROW:
        return x
    with np.errstate(all="ignore"):
        return _noted(DEMOTED, x, x.astype(NARROW[x.dtype]).astype(x.dtype))


def _noted(helper: str, before: Any, after: Any) -> Any:
    if not touched and not np.array_equal(before, after, equal_nan=True):
        touched.append(helper)
    return after


HELPERS: Mapping[str, Any] = {SCALED: _scaled, DEMOTED: _demoted}


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise TooLong after so many seconds, where the system can."""
    import signal

    def stop(*_: Any) -> None:
        raise TooLong

    if not hasattr(signal, "setitimer"):
        yield
        return
    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
