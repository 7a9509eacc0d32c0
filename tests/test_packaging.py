"""What is installed is what the tree holds, under one name each, and nothing beside it."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import gaugeblock

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WINGS: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]
BARE_NAMES = ("spec", "backends", "conformance", "bench")
FRAMEWORKS = ("torch", "jax")
SUITE = ("--pyargs", "gaugeblock.conformance", "--gauge-backend", "numpy")

# A pytest plug-in of the test's own: it reports from inside the run, after pytest has done what it does to sys.path.
PROBE = """
import importlib.util, json, pathlib, sys

def pytest_sessionfinish(session):
    modules = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    report = {
        "collected": session.testscollected,
        "files": {name: str(pathlib.Path(file).resolve()) for name, file in modules.items() if file},
        "bare": [name for name in ("spec", "backends", "conformance", "bench") if importlib.util.find_spec(name)],
    }
    pathlib.Path("report.json").write_text(json.dumps(report))
"""

LIST = """
import sys
from gaugeblock.conformance.cli import main

try:
    status = main()
except SystemExit as stop:
    status = stop.code
if status:
    sys.exit(status)
"""


class Collected(NamedTuple):
    """What a run of the installed suite holds once its checks are collected."""

    total: int
    files: dict[str, str]
    bare: list[str]


def run(arguments: Sequence[str], folder: Path) -> str:
    """Run the environment's Python in a folder of its own, as a user would, and return what it prints."""
    # This session's own pytest options must not reach the inner run.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_pytest(arguments: Sequence[str], folder: Path) -> str:
    """Run pytest with the folder as its root, so that no configuration from further up has a say."""
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return run(["-m", "pytest", "-p", "no:cacheprovider", *arguments], folder)


def loaded_frameworks(code: str, arguments: Sequence[str], folder: Path) -> list[str]:
    """Run the code and name the frameworks that it loaded."""
    tail = f"\nimport json\nprint()\nprint(json.dumps([name for name in {FRAMEWORKS} if name in sys.modules]))"
    lines = run(["-c", code + tail, *arguments], folder).splitlines()
    loaded: list[str] = json.loads(lines[-1])
    return loaded


def modules(folder: Path) -> Iterator[Path]:
    """The Python files of one wing, relative to it."""
    return (path.relative_to(folder) for path in sorted(folder.rglob("*.py")))


@pytest.fixture(scope="session")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel that is built from a copy of the tree: a build folder in the checkout would leak into it."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for wing in WINGS.values():
        shutil.copytree(ROOT / wing, copy / wing, ignore=shutil.ignore_patterns("__pycache__"))
    run(["-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"], copy)
    (wheel,) = (copy / "dist").glob("*.whl")
    assert wheel.name.startswith(f"gaugeblock-{gaugeblock.__version__}-")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="session")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    """The installed suite, collected from a folder that has nothing to do with the checkout."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "probe.py").write_text(PROBE, encoding="utf-8")
    run_pytest(["-p", "probe", "--collect-only", "-q", *SUITE], folder)
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return Collected(report["collected"], report["files"], report["bare"])


def test_the_package_list_is_the_tree() -> None:
    found = set()
    for package, wing in WINGS.items():
        folders = {path.parent for path in modules(ROOT / wing)}
        found |= {".".join((package, *folder.parts)) for folder in folders}
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(found)


def test_every_folder_with_code_is_a_package() -> None:
    folders = {ROOT / wing / path.parent for wing in WINGS.values() for path in modules(ROOT / wing)}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_every_dependency_is_pinned() -> None:
    project = PROJECT["project"]
    asked = [*project["dependencies"], *(line for lines in project["optional-dependencies"].values() for line in lines)]
    names = {re.split(r"[\[<>=]", line)[0] for line in asked} - {"gaugeblock"}
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert names - set(pinned) == set()


def test_the_specification_imports_numpy_and_ml_dtypes_only() -> None:
    allowed = {*sys.stdlib_module_names, "numpy", "ml_dtypes"}
    strangers: defaultdict[str, set[str]] = defaultdict(set)
    for path in modules(ROOT / "spec"):
        for node in ast.walk(ast.parse((ROOT / "spec" / path).read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            outside = (name for name in names if not f"{name}.".startswith("gaugeblock.spec."))
            strangers[str(path)] |= {name for name in outside if name.partition(".")[0] not in allowed}
    assert {path: names for path, names in strangers.items() if names} == {}


def test_the_wheel_holds_gaugeblock_alone(wheel_files: set[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel_files}
    assert tops == {"gaugeblock", f"gaugeblock-{gaugeblock.__version__}.dist-info"}


def test_the_wheel_holds_every_module(wheel_files: set[str]) -> None:
    expected = {
        f"{package.replace('.', '/')}/{path.as_posix()}"
        for package, wing in WINGS.items()
        for path in modules(ROOT / wing)
    }
    assert {name for name in wheel_files if name.endswith(".py")} == expected


def test_the_wheel_holds_every_clause_file(wheel_files: set[str]) -> None:
    clauses = {f"gaugeblock/spec/clauses/{path.name}" for path in (ROOT / "spec" / "clauses").glob("*.md")}
    assert clauses
    assert {name for name in wheel_files if name.endswith(".md")} == clauses


def test_the_wheel_says_that_it_is_typed(wheel_files: set[str]) -> None:
    assert "gaugeblock/py.typed" in wheel_files


def test_every_entry_point_leads_to_a_module_of_the_wheel(wheel_files: set[str]) -> None:
    project = PROJECT["project"]
    groups = [project["scripts"], *project["entry-points"].values()]
    targets = {target.partition(":")[0].replace(".", "/") for group in groups for target in group.values()}
    assert [path for path in targets if not {f"{path}.py", f"{path}/__init__.py"} & wheel_files] == []


def test_the_installed_suite_is_collected(collected: Collected) -> None:
    assert collected.total > 0


def test_no_file_is_loaded_under_two_names(collected: Collected) -> None:
    names = defaultdict(list)
    for name, file in collected.files.items():
        names[file].append(name)
    twice = [found for found in names.values() if len(found) > 1]
    # Other packages' aliases are not ours to judge.
    assert [found for found in twice if any(name.startswith("gaugeblock") for name in found)] == []


def test_the_wings_have_no_bare_names(collected: Collected) -> None:
    loaded = [name for name in collected.files if name.partition(".")[0] in BARE_NAMES]
    assert (loaded, collected.bare) == ([], [])


def test_collecting_for_numpy_loads_no_framework(collected: Collected) -> None:
    assert [name for name in FRAMEWORKS if name in collected.files] == []


def test_the_wings_cannot_be_imported_from_elsewhere(tmp_path: Path) -> None:
    code = f"import importlib.util as u, gaugeblock.spec; print([n for n in {BARE_NAMES} if u.find_spec(n)])"
    assert run(["-c", code], tmp_path).strip() == "[]"


def test_a_users_own_backends_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "backends").mkdir()
    (tmp_path / "backends" / "__init__.py").write_text('OWNER = "user"\n', encoding="utf-8")
    # `--backend` is the option that most such repositories have already.
    (tmp_path / "conftest.py").write_text(
        'def pytest_addoption(parser):\n    parser.addoption("--backend", default="theirs")\n', encoding="utf-8"
    )
    (tmp_path / "test_user.py").write_text(
        "import backends\n\n\n"
        "def test_whose_backends(request):\n"
        '    assert request.config.pluginmanager.hasplugin("gaugeblock")\n'
        '    assert request.config.getoption("--backend") == "theirs"\n'
        '    assert backends.OWNER == "user"\n',
        encoding="utf-8",
    )
    # The suite is collected in the same run, since that is when pytest touches sys.path.
    printed = run_pytest(["test_user.py", *SUITE, "-k", "test_whose_backends"], tmp_path)
    assert re.search(r"\b1 passed, \d+ deselected", printed), printed


def test_importing_gaugeblock_loads_no_framework(tmp_path: Path) -> None:
    assert loaded_frameworks("import sys, gaugeblock", [], tmp_path) == []


@pytest.mark.parametrize("options", [[], ["--backends"]], ids=["clauses", "backends"])
def test_listing_loads_no_framework(options: list[str], tmp_path: Path) -> None:
    assert loaded_frameworks(LIST, ["list", *options], tmp_path) == []
