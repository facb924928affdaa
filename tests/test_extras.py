"""The light install: what works with NumPy and safetensors alone, and what the rest says without its extra."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import numpy as np
import pytest

from mrag_rl.normalizer import StateNormalizer
from mrag_rl.selector_export import export_selector
from mrag_rl.selector_info import SelectorInfo

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mrag_rl"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULES = sorted({*PACKAGE.rglob("*.py"), *(PACKAGE / "envs").glob("*.py"), *(PACKAGE / "agents").glob("*.py")})
NAMES = [".".join(("mrag_rl", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in MODULES]


def distribution(requirement: str) -> str:
    """The normalised name of the distribution in a requirement such as "PyYAML>=6.0"."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", requirement)[0]).lower()


def installed_by(extra: str) -> set[str]:
    """The distributions that an extra names, those of the extras it includes among them."""
    names: set[str] = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        if included := re.match(r"mrag-rl\[(.+)\]", requirement):
            names.update(*map(installed_by, included[1].split(",")))
        else:
            names.add(distribution(requirement))
    return names


BASE = {distribution(requirement) for requirement in PROJECT["dependencies"]}
DISTRIBUTIONS = {module: {distribution(name) for name in names} for module, names in packages_distributions().items()}
OPTIONAL = sorted(
    module for module, names in DISTRIBUTIONS.items() if names & (installed_by("all") | {"jsonargparse"}) - BASE
)


class Requirement(NamedTuple):
    """A call of `mrag_rl.extras.require`."""

    extra: str
    modules: tuple[str, ...]


def requirements(path: Path) -> Iterator[Requirement]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "require":
            extra, *modules = (ast.literal_eval(argument) for argument in node.args)
            yield Requirement(extra, tuple(modules))


def third_party(path: Path) -> set[str]:
    """The top-level modules of other packages that a file imports, for its types alone left out."""

    def visit(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    names = {name.split(".")[0] for name in visit(ast.parse(path.read_text(encoding="utf-8")))}
    return names - sys.stdlib_module_names - {"mrag_rl"}


def with_dependencies(names: set[str]) -> set[str]:
    """Distributions and all that these depend on themselves."""
    found: set[str] = set()
    while names:
        found |= names
        needed = [line for name in names for line in find_requirements(name) if "extra ==" not in line]
        names = {distribution(requirement) for requirement in needed} - found
    return found


def find_requirements(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:  # Those of another platform are not installed
        return []


def run_without_extras(code: str, *, but: str | None = None) -> str:
    """What code prints in a fresh interpreter in which the packages of all extras are missing, or of all `but` one."""
    there = with_dependencies(installed_by(but)) if but else set()
    missing = [module for module in OPTIONAL if not DISTRIBUTIONS[module] & there]
    block = f"import sys; sys.modules.update(dict.fromkeys({missing!r}))"
    result = subprocess.run(
        [sys.executable, "-c", f"{block}\n{code}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return result.stdout


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_what_a_module_imports_its_room_has_asked_for(path: Path) -> None:
    """A package that only an extra installs is imported behind a `require` of the module or of its room's face."""
    doors = [folder / "__init__.py" for folder in path.parents if PACKAGE in folder.parents]
    required = {module for file in (path, *doors) for entry in requirements(file) for module in entry.modules}
    if path.name in ("quantization.py", "nf4_products.py"):
        required.add("bitsandbytes")  # one that is too old gets the same error, so that it has its own, in the former
    assert {module for module in third_party(path) if not DISTRIBUTIONS.get(module, set()) & BASE} <= required


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_an_extra_installs_what_is_required_of_it(path: Path) -> None:
    for extra, modules in requirements(path):
        for module in modules:
            assert DISTRIBUTIONS.get(module, {distribution(module)}) & installed_by(extra), (
                f"{module} does not come with {extra}"
            )


def test_every_module_without_extras_loads_or_names_the_one_to_install() -> None:
    modules = [name.removesuffix(".__init__") for name in NAMES]
    output = run_without_extras(
        "import importlib, json\n"
        "from mrag_rl.extras import MissingExtra\n"
        "errors = {}\n"
        f"for name in {modules!r}:\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except MissingExtra as error:\n"
        "        errors[name] = str(error)\n"
        "print(json.dumps(errors))"
    )
    errors = json.loads(output)
    loaded = {name for name in modules if name not in errors}
    assert {"mrag_rl", "mrag_rl.selector", "mrag_rl.io", "mrag_rl.data.records", "mrag_rl.command_line"} <= loaded
    for room, extra in (
        ("encoders", "encode"),
        ("generation", "encode"),
        ("retrieval", "retrieve"),
        ("memory", "retrieve"),
        ("systems", "retrieve"),
        ("metrics", "train"),
        ("envs", "train"),
        ("agents", "train"),
    ):
        message = errors[f"mrag_rl.{room}"]
        assert re.fullmatch(rf"mrag_rl\.{room} needs [\w, ]+: pip install 'mrag-rl\[{extra}\]'", message)


@pytest.mark.parametrize("extra", ["encode", "retrieve"])
def test_the_rooms_of_an_extra_load_with_it_alone(extra: str) -> None:
    faces = {path.parent.name: {entry.extra for entry in requirements(path)} for path in PACKAGE.glob("*/__init__.py")}
    rooms = sorted(room for room, extras in faces.items() if extras == {extra})
    assert {"encode": "generation", "retrieve": "systems"}[extra] in rooms
    code = "".join(f"import mrag_rl.{room}\n" for room in rooms)
    assert run_without_extras(f"{code}print('loaded')", but=extra).splitlines()[-1] == "loaded"


def test_every_extra_is_in_the_documentations_table() -> None:
    table = re.findall(r"^\| (`.*?`) \|", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.M)
    named = [name for cell in table for name in re.findall(r"`([a-z-]+)`", cell)]
    assert sorted(named) == sorted(set(PROJECT["optional-dependencies"]) - {"dev"})


def test_a_selector_loads_and_chooses_without_extras(tmp_path: Path) -> None:
    weights = {"w1": np.eye(2), "b1": np.zeros(2), "w2": np.eye(2), "b2": np.zeros(2)}
    normalizer = StateNormalizer(np.zeros((2, 1), np.float32), np.ones((2, 1), np.float32))
    info = SelectorInfo("single", ("a", "b"), "dialogue", "bleu1", "an encoder", "its fingerprint")
    export_selector(tmp_path / "selector", weights=weights, normalizer=normalizer, info=info)
    output = run_without_extras(
        "from mrag_rl import Selector\n"
        f"selector = Selector.load({str(tmp_path / 'selector')!r})\n"
        "print(*selector.select([[[0.1], [0.9]], [[0.8], [0.2]]]))\n"
        "try: selector.load_encoder()\n"
        "except ImportError as error: print(error)\n"
        "for share in (Selector.from_pretrained, selector.push_to_hub):\n"
        "    try: share('me/desks')\n"
        "    except ImportError as error: print(error)"
    )
    assert output.splitlines() == [
        "1 0",
        "mrag_rl.encoders needs tokenizers, torch, tqdm, transformers: pip install 'mrag-rl[encode]'",
        "what is on the hub needs huggingface_hub: pip install 'mrag-rl[encode]'",
        "sharing a selector needs huggingface_hub: pip install 'mrag-rl[encode]'",
    ]


@pytest.mark.parametrize("arguments", [["train.py", "--config", "no.yaml"], ["evaluate.py", "systems", "--run", "no"]])
def test_a_command_without_extras_says_so_in_one_line(arguments: list[str]) -> None:
    code = f"import runpy\nsys.argv = {arguments!r}\nsys.stderr = sys.stdout\n"
    code += "try: runpy.run_path(sys.argv[0], run_name='__main__')\nexcept SystemExit as end: print(end.code)"
    line, status = run_without_extras(code).splitlines()
    assert line.startswith("error: ") and " needs " in line
    assert line.endswith("pip install 'mrag-rl[train]'")
    assert status == "2"


@pytest.mark.slow
def test_the_wheel_has_the_training_code_once_and_nothing_of_the_checkout(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for folder in ("mrag_rl", "envs", "agents", "configs", "lm", "tests"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=ignore)
    for file in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "train.py", "evaluate.py"):
        shutil.copy(ROOT / file, source)
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    assert {name for name in packed if not re.match(r"mrag_rl(-[\w.]+\.dist-info)?/", name)} == set()
    assert {str(path.relative_to(ROOT)) for path in MODULES} == {name for name in packed if name.endswith(".py")}
    assert "mrag_rl/data/llm/model.safetensors" in packed
    configs = {f"mrag_rl/{path.relative_to(ROOT)}" for path in (ROOT / "configs").rglob("*.yaml")}
    assert {name for name in packed if name.startswith("mrag_rl/configs/")} == configs
    _check_installed(wheel, tmp_path)


def _check_installed(wheel: Path, folder: Path) -> None:
    """The wheel's command, away from the checkout: its help, a configuration by name, and an error that lists them."""
    site = folder / "site"
    with ZipFile(wheel) as archive:
        archive.extractall(site)
    (command,) = Distribution.at(site / f"{wheel.name.split('-py3')[0]}.dist-info").entry_points.select(name="mrag-rl")
    assert command.group == "console_scripts"
    code = f"from {command.module} import {command.attr} as main\nimport sys; sys.exit(main())"

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(site)}
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=folder, env=environment, capture_output=True, text=True
        )

    shown = call("train", "--help").stdout
    assert "mrag-rl train --config quickstart" in shown and "mrag-rl sweep --help" in shown and "train.py" not in shown
    gate = call("gate", "--config", "real/dialogsum", "--data.pairs", "none.jsonl")
    assert (gate.returncode, gate.stderr.split(";")[0]) == (2, "error: none.jsonl: no such file")
    none = call("train")
    assert none.stderr == "error: no configuration; give --config FILE, such as --config quickstart\n"
    resumed = call("train", "--resume", str(folder))
    assert resumed.stderr.endswith("there is no run to resume; give a folder that mrag-rl train made\n")
    unknown = call("train", "--config", "quikstart")
    assert (
        unknown.returncode == 2 and "check the path, or choose one of few_systems, llm/gemma-3-270m" in unknown.stderr
    )


def test_a_search_without_its_extra_says_so_in_one_line() -> None:
    code = "sys.modules['optuna'] = None\nsys.argv = ['train.py', 'tune']\nimport runpy\nsys.stderr = sys.stdout\n"
    code += "try: runpy.run_path(sys.argv[0], run_name='__main__')\nexcept SystemExit as end: print(end.code)"
    assert run_without_extras(code, but="all").splitlines() == [
        "error: train.py tune needs optuna: pip install 'mrag-rl[tune]'",
        "2",
    ]
