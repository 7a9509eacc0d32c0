"""The backends that the probes are tried on, and the command line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import mpmath
import pytest
from commanding import BACKENDS, Gauge, Said
from probing import Ours, installed

from gaugeblock.conformance import cli


@pytest.fixture(params=["numpy", "torch", "jax"])
def backend(request: pytest.FixtureRequest) -> Iterator[Ours]:
    """A backend, while right and wrong values are worked out with thirty digits."""
    with mpmath.workdps(30):
        yield installed(str(request.param))


@pytest.fixture
def gauge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gauge:
    """The command line, in a folder that holds the backends of commanding as mine.py."""
    (tmp_path / "mine.py").write_text(BACKENDS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> Said:
        monkeypatch.setattr(sys, "argv", ["gaugeblock", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return Said(int(end.value.code or 0), out, err)

    return call


@pytest.fixture
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test adds to the places of modules is gone after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
