"""What `make release-check` rests on: the recipe, the Dockerfile, the workflow, and checks that find what is wrong."""

from __future__ import annotations

import os
import re
import socket
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from marginrank import Ranker
from release import __main__ as release_main
from release import builds, conda, dockerfile, smoke
from release.steps import CheckFailed, Skipped, Table, check_output

ROOT = Path(__file__).parents[2]
in_repository = pytest.mark.skipif(not (ROOT / ".github").exists(), reason="a source distribution has no .github")


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def sdist_of(folder, name="marginrank-9.8.7.tar.gz"):
    place = folder / name
    (folder / "PKG-INFO").write_text("Name: marginrank\n", encoding="utf-8")
    with tarfile.open(place, "w:gz") as archive:
        archive.add(folder / "PKG-INFO", "marginrank-9.8.7/PKG-INFO")
    return place


@in_repository
def test_the_recipe_needs_what_the_package_needs(project, tmp_path):
    conda.fill(ROOT, sdist_of(tmp_path), tmp_path)
    recipe = yaml.safe_load((tmp_path / "recipe.yaml").read_text(encoding="utf-8"))
    needs = dict(re.split(r"(?=[>=])", need, maxsplit=1) for need in project["dependencies"])
    assert dict(need.split(" ", 1) for need in recipe["requirements"]["run"][1:]) == needs
    assert recipe["requirements"]["run"][0] == "python >=${{ python_min }}"
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert [need.replace(" ", "") for need in recipe["requirements"]["host"][1:-1]] == build
    assert f">={recipe['context']['python_min']}" == project["requires-python"]
    (command,) = project["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [" = ".join(command)]
    about = {"summary": project["description"], "license": project["license"], **project["urls"]}
    assert (
        about.items()
        >= {
            "summary": recipe["about"]["summary"],
            "license": recipe["about"]["license"],
            "Source": recipe["about"]["repository"],
            "Documentation": recipe["about"]["homepage"],
        }.items()
    )


@in_repository
def test_the_recipe_is_filled_with_version_and_digest(tmp_path):
    sdist = sdist_of(tmp_path)
    conda.fill(ROOT, sdist, tmp_path)
    recipe = yaml.safe_load((tmp_path / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == "9.8.7"
    assert recipe["source"]["sha256"] == builds.digest(sdist)


def test_every_extra_is_tried(project):
    assert set(smoke.EXTRAS) == set(project["optional-dependencies"]) - {"all"}


def test_every_python_of_the_classifiers_is_tried(project):
    tried = {f"Programming Language :: Python :: {version}" for version in release_main.PYTHONS}
    assert tried == {line for line in project["classifiers"] if re.search(r"Python :: \d", line)}


@in_repository
def test_a_tag_is_released_by_the_same_command():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["build"]["steps"]
    (pythons,) = (step["with"]["python-version"] for step in steps if "python-version" in step.get("with", {}))
    assert tuple(sorted(pythons.split())) == release_main.PYTHONS
    assert any(step.get("run", "").startswith("make release-check") for step in steps)
    assert workflow["jobs"]["publish"]["needs"] == "build"


class TestReview:
    """The review of contents, on a small repository."""

    @pytest.fixture
    def tracked(self, monkeypatch):
        names = ["LICENSE", ".github/x.yml", *(f"src/marginrank/{name}" for name in self.PACKAGE)]
        monkeypatch.setattr(builds, "check_output", lambda *_, **__: "\n".join(names))

    PACKAGE = ("py.typed", "__init__.pyi", "reporting/licenses.txt")
    INFO = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")

    def build(self, folder, extra=None):
        names = [f"marginrank/{name}" for name in self.PACKAGE]
        names += [f"marginrank-1.dist-info/{name}" for name in self.INFO]
        with zipfile.ZipFile(folder / "a.whl", "w") as wheel:
            for name, content in {**dict.fromkeys(names, ""), **(extra or {})}.items():
                wheel.writestr(name, content)
        with tarfile.open(folder / "a.tar.gz", "w:gz") as sdist:
            for name in ("PKG-INFO", "LICENSE", *(f"src/marginrank/{name}" for name in self.PACKAGE)):
                sdist.addfile(tarfile.TarInfo(f"marginrank-1/{name}"))
        return builds.Build(folder / "a.whl", folder / "a.tar.gz")

    @pytest.mark.usefixtures("tracked")
    def test_what_was_committed_passes(self, tmp_path):
        assert builds.review(self.build(tmp_path), ROOT) == "wheel 8 files (1 stubs), source 5 files"

    @pytest.mark.usefixtures("tracked")
    @pytest.mark.parametrize(
        ("extra", "said"),
        [
            ({"tests/test_it.py": ""}, r"the wheel has other files than it should: too many \['tests/test_it.py'\]"),
            ({"marginrank-1.dist-info/notes": ""}, "dist-info has other files"),
            ({"marginrank/py.typed": "# /home/someone/build"}, "a path of a machine in marginrank/py.typed"),
        ],
    )
    def test_what_does_not_belong_there_is_named(self, tmp_path, extra, said):
        with pytest.raises(CheckFailed, match=said):
            builds.review(self.build(tmp_path, extra), ROOT)


def test_the_table_says_what_failed_and_why(capsys):
    def fail():
        raise CheckFailed("no\nway")

    def skip():
        raise Skipped("no Python 3.15 here")

    table = Table()
    assert table.add("first", lambda: "numpy 2.0")
    assert not table.add("second", fail)
    assert not table.add("third", skip)
    assert table.failed == ["second"]
    assert [line.rsplit(" | ", 1)[1] for line in str(table).splitlines()[2:]] == [
        "ok |",
        "FAILED: no way |",
        "skipped: no Python 3.15 here |",
    ]
    assert capsys.readouterr().out.splitlines()[1].startswith("FAILED  second")


def test_a_file_that_is_ignored_or_missing_cannot_be_copied(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / ".dockerignore").write_text("secret\n", encoding="utf-8")
    (source / "secret").touch()
    container = dockerfile.Container(source, tmp_path / "root", Path(os.devnull))
    for name in ("secret", "absent"):
        with pytest.raises(CheckFailed, match=f"{name} is missing, or in .dockerignore"):
            container.take(dockerfile.Instruction("COPY", f"{name} ./"))
    with pytest.raises(CheckFailed, match="/opt/it was not built"):
        container.take(dockerfile.Instruction("COPY", "--from=build /opt/it /opt/it"))


def test_steps_run_below_the_folder_with_their_variables(tmp_path):
    container = dockerfile.Container(tmp_path, tmp_path / "root", Path(os.devnull))
    steps = "FROM x\nWORKDIR /build\nENV PLACE=/opt/a\nRUN useradd me && mkdir -p /opt/a && echo $PLACE > /opt/a/out\n"
    for instruction in dockerfile.parse(steps):
        container.take(instruction)
    assert (tmp_path / "root/opt/a/out").read_text(encoding="utf-8").strip() == str(tmp_path / "root/opt/a")
    assert container.left_out == ["useradd me"]
    with pytest.raises(CheckFailed, match="ended with 3"):
        container.take(dockerfile.Instruction("RUN", "exit 3"))


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the image runs Linux")
def test_the_dockerfile_builds_an_image_that_serves(tmp_path):
    """Its steps, with what is installed here in place of the index: nothing is downloaded."""
    Ranker("softmax").fit([[0.0], [1.0]], [0, 1], qid=[1, 1]).save(tmp_path / "model.safetensors")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PYTHONPATH": sysconfig.get_path("purelib")}
    python = Path(os.path.realpath(sysconfig.get_path("scripts"))) / "python"
    done = dockerfile.build_and_serve(ROOT, tmp_path / "root", python, offline, tmp_path / "model.safetensors", port)
    assert done.endswith(f"healthy on port {port}, ended by SIGTERM")
    assert list((tmp_path / "root/opt/marginrank").glob("lib/*/site-packages/marginrank/py.typed"))


def test_a_failure_shows_the_ends_of_both_outputs():
    program = "import sys; print(1 + 1, 'failed'); print('a warning\\n' * 50, file=sys.stderr); sys.exit(1)"
    with pytest.raises(CheckFailed, match="2 failed"):
        check_output([sys.executable, "-c", program])
