"""The errors of the specification, and how they are worded."""


class GaugeblockError(Exception):
    """Anything that gaugeblock refuses."""


class ShapeError(GaugeblockError, ValueError):
    """An array has the wrong rank or extent."""


class DTypeError(GaugeblockError, TypeError):
    """An array has the wrong element type."""


class PositionError(GaugeblockError, ValueError):
    """A position is negative or too large."""


class CapacityError(GaugeblockError, ValueError):
    """A cache has no room for the new tokens."""


class CacheError(GaugeblockError, RuntimeError):
    """A cache was used after it had been consumed."""


class ConfigError(GaugeblockError, ValueError):
    """A parameter or configuration has no meaning."""


class PlacementError(GaugeblockError, RuntimeError):
    """Code that should stay on a device reads a value, or has an array elsewhere."""


class Unsupported(GaugeblockError, NotImplementedError):
    """A feature that the backend declares it does not offer."""


class NotAvailable(GaugeblockError, RuntimeError):
    """The backend cannot run here: a package or a device is missing."""


def refuse(kind: type[GaugeblockError], rule: str, problem: str, where: str) -> GaugeblockError:
    """Word a refusal: rule, what was expected and got, where."""
    return kind(f"{rule}: {problem} [{where}]")
