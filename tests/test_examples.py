"""The examples give the verdicts that they are there to show, and the README tells the truth."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaugeblock.conformance.check import check_backend
from gaugeblock.conformance.checks import registry
from gaugeblock.conformance.load import load, names
from gaugeblock.conformance.propose import propose
from gaugeblock.conformance.records import exit_status
from gaugeblock.spec.clause import clauses
from gaugeblock.spec.components import COMPONENTS, offered

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NAIVE = f"{ROOT / 'examples' / 'naive_numpy.py'}:NaiveAttention"
SDPA = f"{ROOT / 'examples' / 'torch_sdpa.py'}:TorchSDPA"
MODELS = {"hf_llama.py:HFLlama": 45, "hf_bert.py:HFBert": 24}  # of transformers, with how many checks pass at least
JAX = f"{ROOT / 'examples' / 'jax_nn.py'}:JaxNN"


def gaugeblock(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """The command as a user types it."""
    env = {**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    script = Path(sys.executable).parent / "gaugeblock"
    return subprocess.run(
        [script, *arguments], cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8", check=False
    )


def fences(kind: str) -> Iterator[tuple[str, str]]:
    """The README's blocks of one kind, each with the note that stands above it."""
    found = re.findall(rf"(?:<!-- tested:? ?(.*?)-->\n)?```{kind}\n(.*?)```", README, flags=re.DOTALL)
    yield from ((note.strip(), text) for note, text in found)


def lasting(text: str) -> str:
    """What does not depend on the machine: no times, and not how far below its bound a passing result stayed."""
    text = re.sub(r"\d+\.\d s\b", "# s", text)
    text = re.sub(r"\b(pass|float32|float64) \d\.\d\d\b", r"\1 #", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def test_the_readme_shows_what_is_printed() -> None:
    shown = list(fences("console"))
    assert shown
    for _, block in shown:
        command, _, expected = block.partition("\n")
        done = gaugeblock(*command.removeprefix("$ gaugeblock ").split())
        assert lasting(done.stdout) == lasting(expected), f"{command}\n{done.stdout}{done.stderr}"
        assert done.returncode == 1


def test_the_readme_s_adapter_conforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = dict(fences("python"))
    (tmp_path / "my_attention.py").write_text(blocks["my_attention.py"], encoding="utf-8")
    found = check_backend(load(f"{tmp_path / 'my_attention.py'}:MyAttention"), only=["attention"], profile="quick")
    assert {r.outcome for r in found} == {"pass", "unsupported"}, [r for r in found if r.outcome not in ("pass",)]
    monkeypatch.syspath_prepend(str(tmp_path))
    space: dict[str, object] = {}
    exec(blocks[""], space)
    assert space["records"]


@pytest.mark.parametrize("example", MODELS)
def test_models_of_transformers_conform(example: str) -> None:
    pytest.importorskip("transformers")
    found = check_backend(load(f"{ROOT / 'examples' / example}"), only=["model"], profile="quick", dtypes=["float32"])
    wrong = [record for record in found if record.outcome not in ("pass", "unsupported")]
    assert not wrong and sum(record.outcome == "pass" for record in found) >= MODELS[example]


def test_the_readme_s_proposal_is_proposed() -> None:
    (command,) = (note for note, _ in fences("python") if note.startswith("gaugeblock propose "))
    done = gaugeblock(*command.split()[1:])
    assert done.returncode == 0
    assert dict(fences("python"))[command].strip() in done.stdout.splitlines()


def covered() -> str:
    """What the README says is covered, from the clauses, the checks and the backends themselves."""
    backends = {name: load(name) for name in ("numpy", "torch", "jax")}
    rows = [f"| component | clauses | checks | {' | '.join(backends)} |", "|---|---|---|---|---|---|"]
    for component in COMPONENTS:
        kinds = Counter(one.kind for one in clauses().values() if one.component == component)
        binding = [f"{kinds[kind]} {kind}" for kind in ("MUST", "SHOULD") if kinds[kind]]
        count = sum(check.component == component for check in registry().values())
        offers = ["yes" if component in offered(backend) else "no" for backend in backends.values()]
        if count:
            rows.append(f"| {component} | {', '.join(binding)} | {count} | {' | '.join(offers)} |")
    return "\n".join(rows)


def test_the_readme_says_what_is_covered() -> None:
    for framework in ("torch", "jax"):
        pytest.importorskip(framework)
    assert covered() in README, f"the README must hold\n{covered()}"
    assert set(names()) == {"numpy", "torch", "jax"}


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", README)
    assert links
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_the_naive_example_fails_in_empty_rows_alone() -> None:
    found = check_backend(load(NAIVE), only=["attention"], dtypes=["float32"])
    assert exit_status(r.outcome for r in found) == 1
    failed = [r for r in found if r.outcome == "fail"]
    assert {(r.failure or {})["clause"] for r in failed} == {"ATTN-EMPTY-ROW"}
    assert all((r.failure or {})["in_empty_rows"] for r in failed)
    assert any("ATTN-CAUSAL-ALIGN" in r.clauses for r in failed), "a failure of another check is grouped there too"
    assert [r.clauses for r in found if r.outcome == "error"] == [("ATTN-EMPTY-AXES",)]
    assert {r.outcome for r in found} == {"pass", "fail", "error", "unsupported"}


def kernel_forgets_nan() -> bool:
    """Whether PyTorch's fused kernel shows its fault here: it depends on the width of the machine's vectors."""
    torch = pytest.importorskip("torch")
    q, k = torch.full((1, 1, 1, 1), torch.nan), torch.ones(1, 1, 1, 1)
    return bool(torch.nn.functional.scaled_dot_product_attention(q, k, k) == 0)


def test_the_torch_example_conforms_but_for_what_is_known() -> None:
    pytest.importorskip("torch")
    found = check_backend(load(SDPA), only=["attention"], profile="quick")
    wrong = {r.clauses for r in found if r.outcome not in ("pass", "unsupported")}
    assert wrong == ({("ATTN-NONFINITE",)} if kernel_forgets_nan() else set())
    assert {r.dtype for r in found} == {"float64", "float32", "bfloat16", "float16"}


def test_the_torch_example_s_list_of_known_failures_holds() -> None:
    if not kernel_forgets_nan():
        pytest.skip("the kernel does not show the fault on this machine")
    asked = ("--profile", "quick", "--dtype", "float32", "--only", "ATTN-NONFINITE")
    done = gaugeblock("check", "examples/torch_sdpa.py:TorchSDPA", *asked, "--known", "examples/torch_sdpa.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^ATTN-NONFINITE +known-failure$", done.stdout, flags=re.MULTILINE)


def test_propose_finds_what_the_torch_example_declares() -> None:
    pytest.importorskip("torch")
    backend, lines = load(SDPA), propose(SDPA, [])
    assert lines[0] == 'conventions = Conventions(causal_alignment="top_left", empty_row="zeros", head_order="grouped")'
    assert lines[2] == 'level = {"bfloat16": Level.FUSED, "float16": Level.FUSED}'
    assert set(ast.literal_eval(lines[1].removeprefix("unsupported = "))) == set(backend.unsupported)


def test_the_jax_example_conforms() -> None:
    pytest.importorskip("jax")
    found = check_backend(load(JAX), only=["attention"], profile="quick", dtypes=["float32"])
    assert {r.outcome for r in found} == {"pass", "unsupported"}
    assert {r.reason.partition(":")[0] for r in found if r.outcome == "unsupported"} == {"attention.value_width"}


def test_propose_finds_what_the_jax_example_declares() -> None:
    pytest.importorskip("jax")
    lines, rules = propose(JAX, []), load(JAX).conventions.empty_row
    assert 'causal_alignment="top_left"' in lines[0] and not isinstance(rules, str)
    assert all(f'"{route}": "{rule}"' in lines[0] for route, rule in rules.items())
    assert lines[1].startswith('unsupported = {"attention.value_width": ') and lines[1].count('": "') == 1
    assert lines[2] == 'level = {"bfloat16": Level.FUSED, "float16": Level.FUSED}'


@pytest.mark.parametrize(("name", "most"), [("naive_numpy.py", 14), ("torch_sdpa.py", 30), ("jax_nn.py", 20)])
def test_an_example_stays_short(name: str, most: int) -> None:
    tree = ast.parse((ROOT / "examples" / name).read_text(encoding="utf-8"))
    (made,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    assert (made.end_lineno or 0) - made.lineno < most
