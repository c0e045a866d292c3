"""The commands of a wheel in environments of their own, away from any checkout and in one."""

from __future__ import annotations

import base64
import csv
import email
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile

import pytest

from caraml.cli import main
from caraml.installation import SYSTEMS, checkout
from jpwr import __version__
from results.files.systems import read_systems
from results.tests import made_up

TO_INSTALL = "install it with pip install '.[report]' in a checkout of CARAML"


def run(*command, **options):
    # What is installed is compiled at its first use, and then stays so.
    kept = os.environ.keys() - {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    environ = {key: os.environ[key] for key in kept}
    return subprocess.run(command, env=environ, capture_output=True, text=True, **options)


def pip(*arguments, **options):
    done = run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments, **options)
    assert done.returncode == 0, f"pip {' '.join(map(str, arguments))} failed; is there a connection?\n{done.stderr}"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """What git has of this checkout: what is built in it stays away from the next build."""
    folder = tmp_path_factory.mktemp("copy") / "caraml"
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=checkout(), check=True)
    for name in listed.stdout.splitlines():
        if (checkout() / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(checkout() / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def sdists(copy, tmp_path_factory):
    """Those of the sampler and of the suite."""
    folder = tmp_path_factory.mktemp("sdists")
    program = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    for project in (copy / "jpwr", copy):
        done = run(sys.executable, "-c", program, cwd=project)
        assert done.returncode == 0, done.stderr
    return sorted(folder.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheels(sdists, tmp_path_factory):
    """Those of both, made from nothing but their sdists."""
    folder = tmp_path_factory.mktemp("wheels")
    # scripts/setup.sh shows that what a build asks for is enough.
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, *sdists)
    return sorted(folder.glob("*.whl"))


class Installed:
    """An environment with the wheels in it."""

    def __init__(self, folder, wheels, *flags):
        venv.create(folder)
        self.bin = folder / "bin"
        pip("--python", self.bin / "python", "install", "--no-compile", *flags, *wheels)

    def caraml(self, *arguments, cwd):
        """What the command said; never a traceback."""
        done = run(self.bin / "caraml", *map(str, arguments), cwd=cwd)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def refused(self, *arguments, cwd):
        """The one sentence that the command ended with."""
        done = self.caraml(*arguments, cwd=cwd)
        assert done.returncode == 2, done.stdout + done.stderr
        *_, sentence = done.stderr.splitlines()
        return sentence


@pytest.fixture(scope="module")
def bare(wheels, tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("bare"), wheels, "--no-deps")


@pytest.fixture(scope="module")
def whole(wheels, tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("whole"), wheels)


def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_the_metadata_has_what_an_index_shows_and_no_link_that_leads_nowhere_there(wheels):
    sampler, suite = map(metadata, wheels)
    assert (sampler["Name"], suite["Name"]) == ("caraml-jpwr", "caraml-suite")
    assert suite["License-Expression"] == sampler["License"] == "Apache-2.0"
    for about in (sampler, suite):
        assert about["Keywords"]
        assert "Operating System :: POSIX :: Linux" in about.get_all("Classifier")
        assert "Paper, https://arxiv.org/abs/2409.12994" in about.get_all("Project-URL")
        assert about["Description-Content-Type"] == "text/markdown"
        for target in re.findall(r"\]\(([^)\s]+)\)", about.get_payload()):
            assert target.startswith(("https://", "#")), target


def test_tests_are_in_no_sdist(sdists):
    for sdist in sdists:
        with tarfile.open(sdist) as files:
            assert not [name for name in files.getnames() if "tests" in name.split("/")]


class Pair:
    """Both distributions, and what is on the disk of each."""

    def __init__(self, folder, wheels):
        self.installed = Installed(folder, wheels, "--no-deps")
        self.packages = next((folder / "lib").glob("python*/site-packages"))

    def uninstall(self, name):
        pip("--python", self.installed.bin / "python", "uninstall", "--yes", name)

    def missing(self, name):
        """Files of a distribution that are not there any more, or are not as they were."""
        [record] = self.packages.glob(f"{name}-*.dist-info/RECORD")
        lost = []
        for file, digest, _ in csv.reader(record.read_text().splitlines()):
            path = self.packages / file
            if digest and path.is_file():
                found = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
            lost += [file] if not path.is_file() or (digest and digest != f"sha256={found}") else []
        return lost


@pytest.mark.slow
def test_the_suite_can_be_uninstalled_and_the_sampler_is_whole(wheels, tmp_path):
    pair = Pair(tmp_path / "env", wheels)
    pair.uninstall("caraml-suite")
    assert pair.missing("caraml_jpwr") == []
    done = run(pair.installed.bin / "jpwr", "--methods", "estimate", "--", "true", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_sampler_can_be_uninstalled_and_the_suite_says_that_it_is_missing(wheels, tmp_path):
    pair = Pair(tmp_path / "env", wheels)
    pair.uninstall("caraml-jpwr")
    assert pair.missing("caraml_suite") == []
    assert not (pair.packages / "jpwr").exists()
    to_do = "install it with pip install ./jpwr in a checkout of CARAML"
    for program, code in (("caraml", 2), ("ioprof", 125)):
        done = run(pair.installed.bin / program, "--version", cwd=tmp_path)
        assert done.returncode == code
        [sentence] = done.stderr.splitlines()
        assert "jpwr" in sentence
        assert sentence.endswith(to_do)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A sweep of two points with three runs each, and an archive of it."""
    folder = tmp_path_factory.mktemp("results")
    run = folder / "llm_run" / "000000"
    for batch in (8, 16):
        for repeat in range(3):
            record = made_up.result(batch=batch, tokens_per_s=100.0 + repeat)
            made_up.store_run(run / f"{batch:05d}{repeat}_benchmark" / "work", record)
            (run / f"{batch:05d}{repeat}_benchmark" / "work" / "ready").touch()
    (run / "workpackages.xml").touch()
    assert main(["archive", str(run), "-o", str(folder / "a.tar.zst")]) == 0
    return folder


READING = (
    ("systems",),
    ("check", "llm_run"),
    ("table", "llm_run"),
    ("table", "llm_run", "--repeats", "--format", "markdown"),
    ("compare", "llm_run/000000", "llm_run/000000"),
    ("published", "GPT-800M"),
    ("verify", "a.tar.zst"),
    ("image", "cpu", "--print", "apptainer"),
    ("doctor",),
    ("--version",),
    ("wait", "llm_run"),
)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_results_are_read_with_the_wheel_alone(whole, results, arguments):
    done = whole.caraml(*arguments, cwd=results)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_wheel_knows_the_systems_of_the_checkout_and_its_version(whole, results):
    printed = whole.caraml("systems", cwd=results).stdout
    first = [line.split()[0] for line in printed.splitlines() if line[:1].isalpha()]  # of rows, without wrapped cells
    assert [name for name in first if name != "system"] == list(read_systems())
    assert whole.caraml("--version", cwd=results).stdout == f"caraml {__version__}\n"


@pytest.mark.slow
def test_the_wheel_hides_no_package_of_jubes(whole, results):
    done = run(whole.bin / "python", "-c", "import importlib.util as u; print(u.find_spec('jube'))", cwd=results)
    assert done.stdout == "None\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        (("report", "llm_run"), "matplotlib"),
        (("table", "llm_run", "--format", "latex"), "pandas"),
        (("published", "--plot", "bars"), "matplotlib"),
    ],
    ids=["report", "latex", "plot"],
)
def test_what_a_document_needs_is_one_sentence(whole, results, arguments, module):
    sentence = whole.refused(*arguments, cwd=results)
    assert f"has no module {module}" in sentence
    assert sentence.endswith(TO_INSTALL)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("image", "cpu"), ("archive", "llm_run")], ids=" ".join)
def test_what_is_in_a_checkout_alone_is_said_outside_of_one(whole, results, arguments):
    assert "this needs a checkout of CARAML" in whole.refused(*arguments, cwd=results)


@pytest.mark.slow
def test_the_doctor_says_that_there_is_no_checkout_and_looks_at_the_rest(whole, results):
    done = whole.caraml("doctor", "--system", next(iter(read_systems())), cwd=results)
    assert done.returncode == 1
    assert f"FAIL  checkout: {results} is in none" in done.stdout
    assert "JUBE: " in done.stdout
    assert "sensor " in done.stdout


@pytest.mark.slow
def test_in_a_checkout_the_wheel_takes_that_ones_systems_site_and_workflow(whole, results, copy, tmp_path):
    here = tmp_path / "caraml"
    shutil.copytree(copy, here)
    mine = (here / SYSTEMS).read_text().replace("tag: CPU\n", "tag: MYBOX\n").replace("_: CPU}", "_: MYBOX}")
    (here / SYSTEMS).write_text(mine)
    inside = here / "results" / "tests"
    assert "MYBOX" in whole.refused("systems", "--system", "nothing of that name", cwd=inside)
    assert "ok    disk, results" in whole.caraml("doctor", "--system", "MYBOX", cwd=inside).stdout
    (here / "site.yaml").write_text("acount: me\n")
    assert "has an unknown key 'acount'" in whole.refused("doctor", "--system", "MYBOX", cwd=inside)
    done = whole.caraml("archive", results / "llm_run", "-o", tmp_path / "b.tar.zst", cwd=inside)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        (("systems",), "yaml"),
        (("table", "llm_run"), "fastjsonschema"),
        (("compare", "llm_run/000000", "llm_run/000000"), "fastjsonschema"),
        (("verify", "a.tar.zst"), "zstandard"),
        (("check", str(checkout() / "jube" / "llm.yaml")), "yaml"),
        (("doctor",), "yaml"),
        (("image", "cpu"), "yaml"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_package_that_is_missing_is_one_sentence_with_what_to_install(bare, results, arguments, module):
    sentence = bare.refused(*arguments, cwd=results)
    assert f"{bare.bin}" in sentence
    assert f"has no module {module}" in sentence
    assert sentence.endswith(TO_INSTALL)


@pytest.mark.parametrize("arguments", [("--help",), ("check", "llm_run"), ("published", "JEDI")], ids=" ".join)
def test_what_needs_python_alone_works_with_python_alone(bare, results, arguments):
    assert bare.caraml(*arguments, cwd=results).returncode == 0


def test_the_workflows_question_for_the_site_is_one_sentence_too(bare, copy, tmp_path):
    (tmp_path / "jube" / "include").mkdir(parents=True)
    shutil.copy(copy / SYSTEMS, tmp_path / SYSTEMS)
    (tmp_path / "site.yaml").write_text("account: me\n")
    done = run(bare.bin / "python", "-m", "caraml.plan.site", "CPU", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("site: ")
    assert len(done.stderr.splitlines()) == 1
    (tmp_path / "site.yaml").unlink()
    done = run(bare.bin / "python", "-m", "caraml.plan.site", "CPU", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"DATA_FOLDER={tmp_path / 'data'}\n" in (tmp_path / "site.sh").read_text()


@pytest.mark.slow
def test_a_table_of_the_wheel_is_that_of_the_checkout(whole, results, capsys):
    assert main(["table", str(results / "llm_run"), "--repeats", "--format", "csv"]) == 0
    told = whole.caraml("table", "llm_run", "--repeats", "--format", "csv", cwd=results)
    assert told.stdout == capsys.readouterr().out
