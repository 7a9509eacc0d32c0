"""Check a backend object in this process: for a notebook, a debugger, or a test of one's own."""

from collections.abc import Iterable, Sequence

from gaugeblock.conformance.checks import Plan, Record, run
from gaugeblock.conformance.load import ready
from gaugeblock.conformance.selection import dtypes_of, known_dtypes, of_backend, selected
from gaugeblock.spec.backend import Backend


def check_backend(
    backend: Backend,
    *,
    only: Iterable[str] = (),
    dtypes: Sequence[str] = (),
    profile: str = "default",
    seed: int | None = None,
    case: str = "",
) -> list[Record]:
    """Run the checks on a backend object, and give a record of each cell.

    only holds components, clause ids or names of checks, dtypes names from spec.precision.FORMATS (all that the
    backend declares, where empty); profile is quick, default or thorough.
    Raises ConfigError for what it does not know, or where the backend does not fit the interface.
    """
    ready(backend, type(backend).__name__)
    known_dtypes(dtypes)
    plan = Plan(profile, seed, case=case)
    chosen = [check for check in selected(only, case) if of_backend(check, backend)]
    return [run(check, backend, dtype, plan) for dtype in dtypes_of(backend, dtypes) for check in chosen]
