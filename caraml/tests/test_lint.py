"""What JUBE would accept in silence."""

from __future__ import annotations

import pytest

from caraml.installation import SYSTEMS, checkout
from caraml.lint import lint
from record.errors import RecordError
from results.files.systems import read_systems

GOOD = """\
name: work
outpath: out
parameterset:
  - name: sweep
    parameter:
      - {name: batch, type: int, _: "8,16"}
      - {name: program, _: "train $batch in ${jube_wp_id}"}
step:
  - name: prepare
    do: echo ready
  - name: train
    depend: prepare
    use: [sweep]
    do: {done_file: ready, _: $program}
patternset:
  - name: figures
    pattern:
      - {name: speed, type: float, _: "speed (.*)"}
analyser:
  name: analyse
  use: figures
  analyse: {step: train, file: out.txt}
result:
  use: analyse
  table:
    name: result
    column:
      - {title: batch, _: batch}
      - {title: speed, _: speed}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "work.yaml"
    path.write_text(GOOD)
    return path


def test_a_sound_workflow_has_no_findings(file):
    assert lint(file) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ('type: int, _: "8,16"', 'tpye: int, _: "8,16"', 6, "knows no key 'tpye' in 'parameter': did you mean 'type'?"),
        ("outpath: out", "outpath: out\noutpath: other", 3, "'outpath' is written twice, first in line 2"),
        (
            '      - {name: program, _: "train',
            '      - {name: batch, _: 4}\n      - {name: program, _: "train',
            7,
            "parameter 'batch' is written twice, first in line 6",
        ),
        ("train $batch in", "train $bach in", 7, "no parameter 'bach' in step 'train': did you mean '$batch'?"),
        ("_: $program", "_: $programs", 14, "no parameter 'programs' in step 'train'"),
        ("use: [sweep]", "use: [sweeps]", 13, "there is no set 'sweeps' in this file"),
        ("use: [sweep]", "use: [{from: other.yaml, _: sweep}]", 13, "there is no file other.yaml"),
        ("depend: prepare", "depend: prepared", 11, "depends on 'prepared', which is no step"),
        ("step: train", "step: trian", 22, "reads step 'trian', which is no step"),
        ("use: analyse", "use: analyze", 24, "uses 'analyze', which is no analyser"),
        ("title: speed, _: speed", "title: speed, _: sped", 29, "column 'sped' is neither a parameter nor a pattern"),
        ("name: work", "name: [work", 2, "cannot be read: did not find expected"),
    ],
)
def test_what_jube_would_ignore_is_found_with_its_line(file, old, new, line, text):
    assert GOOD.count(old) == 1
    file.write_text(GOOD.replace(old, new))
    found = lint(file)
    assert any(text in finding.text for finding in found), found
    assert next(finding for finding in found if text in finding.text).line == line
    assert str(found[0]).startswith(f"{file}:")


def test_sets_of_other_files_are_looked_at_too(file, tmp_path):
    (tmp_path / "more.yaml").write_text("parameterset:\n  - name: sweep\n    paramter:\n      - {name: batch, _: 1}\n")
    file.write_text(GOOD.replace("use: [sweep]", "use: [sweep, {from: more.yaml, _: sweep}]"))
    [finding] = lint(file)
    assert (finding.file.name, finding.line) == ("more.yaml", 3)
    assert "did you mean 'parameter'?" in finding.text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"a: [", "cannot be read: did not find expected"),
        (b"", "must hold keys"),
        (b"- a", "must hold keys"),
        (b"name: \xe4", "cannot be read: it is not in UTF-8"),
        (b"[" * 3000, "maximum nesting depth"),
    ],
)
def test_a_file_of_sets_that_cannot_be_read_is_the_one_finding(file, tmp_path, content, text):
    (tmp_path / "more.yaml").write_bytes(content)
    file.write_text(GOOD.replace("use: [sweep]", "use: [sweep, {from: more.yaml, _: more}]"))
    [finding] = lint(file)
    assert finding.file.name == "more.yaml"
    assert text in finding.text


def test_files_that_take_sets_from_each_other_are_looked_at_once(file, tmp_path):
    file.write_text(GOOD.replace("use: [sweep]", "use: [sweep, {from: work.yaml, _: sweep}]"))
    assert lint(file) == []


def test_a_file_that_is_not_there_is_a_finding(tmp_path):
    [finding] = lint(tmp_path / "none.yaml")
    assert "cannot be read: No such file" in finding.text


# Each in the first block, of the CPU: the text with its first occurrence changed, and what is found in that line.
MISTAKES = [
    ("{name: vendor, ", "{name: vendro, ", "has an unknown key 'vendro': did you mean 'vendor'?"),
    ("{name: picture_rounds,", "{name: picture_round,", "did you mean 'picture_rounds'?"),
    ("submit,             _: bash", "submit,             _: ", "submit is None, but must be one of bash, sbatch,"),
    ('gres,               _: ""', "gres,               _: ", 'gres is None, but must be a text, or "" for none'),
    ("image,              _: cpu", 'image,              _: ""', "image is '', but must be a text"),
    ("image,              _: cpu", "image", "image is None, but must be a text"),
    ("image,              _: cpu", "image,              _: [cpu]", "image is None, but must be a text"),
    ("submit,             _: bash", "submit,             _: basch", "submit is 'basch', but must be one of bash,"),
    (
        "devices_per_node,   type: int, _: 2",
        "devices_per_node, _: two",
        "devices_per_node is 'two', but must be a whole",
    ),
    ("devices_per_node,   type: int, _: 2", "devices_per_node, _: 0", "must be a whole number from 1 on"),
    (
        "devices_per_node,   type: int, _: 2",
        "devices_per_node, mode: shell, _: nproc",
        "devices_per_node is 'nproc', but",
    ),
    (
        "tdp_w_per_device,   type: float, _: 0",
        "tdp_w_per_device, _: 400 W",
        "tdp_w_per_device is '400 W', but must be a",
    ),
    (
        'devices_sweep,      _: "1 2"',
        "devices_sweep,      _: one",
        "devices_sweep is 'one', but must be whole numbers",
    ),
    ('batch_sweep,        _: "4 8; 117M: 2 4"', "batch_sweep, _: 8 16; 117M 2 4", "such as '8 16; 117M: 2 4'"),
    ("default_image_size, type: int, _: 64", "default_image_size, _: small", "default_image_size is 'small'"),
    (
        "host_suffix,        _: ",
        "host_suffix, _: NO} #",
        "has 'NO', which JUBE reads as False, after",
    ),
    (
        "tdp_w_per_device,   type: float, _: 0",
        "tdp_w_per_device, _: 020000",
        "has '020000', which JUBE reads as 8192, af",
    ),
    ("host_suffix,        _: ", "host_suffix, _: 1:30} #", "has '1:30', which JUBE reads as 90, after"),
    ("_: the CPU of this machine", '_: "CPU, this machine"', "has a comma in its accelerator, which JUBE takes for"),
    ("system_name,        _: CPU", "system_name,        _: GPU", "has 'GPU' as its system_name: write CPU"),
]


@pytest.fixture(scope="module")
def systems_text():
    """The first two systems alone: a file of all takes a second to read."""
    text = (checkout() / SYSTEMS).read_text()
    return "  - name: system\n".join(text.split("  - name: system\n")[:3])


def finding_in(file, text, words):
    """The finding with these words in a file of systems, which whoever reads the systems is told as well."""
    file.write_text(text)
    [finding] = [one for one in lint(file) if words in one.text]
    assert finding.file == file
    with pytest.raises(RecordError) as error:
        read_systems(file)
    assert str(error.value) == str(finding)
    return finding


@pytest.mark.parametrize(("old", "new", "found"), MISTAKES)
def test_a_mistake_in_the_block_of_a_system_is_found_with_its_line(tmp_path, systems_text, old, new, found):
    finding = finding_in(tmp_path / SYSTEMS.name, systems_text.replace(old, new, 1), found)
    assert finding.line == systems_text[: systems_text.index(old)].count("\n") + 1
    assert finding.text.startswith("system CPU")


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (
            "    tag: A100",
            "    tag: CPU",
            "system CPU is described twice, first in line {first}: give one of them another",
        ),
        (
            "      - {name: submit,             _: bash}\n",
            "",
            "system CPU has no 'submit': add it, with one of bash, sb",
        ),
        ("    parameter:", "    parameters:", "system CPU has no 'parameter', which holds its keys"),
        ("    tag: CPU\n", "", "the block of a system has 'name: system', and the system's name as its 'tag'"),
        ("  - name: system\n", "  - name: sistem\n", "the block of a system has 'name: system'"),
    ],
)
def test_a_mistake_in_what_a_system_consists_of_is_found_where_its_block_starts(
    tmp_path, systems_text, old, new, found
):
    starts = [number for number, line in enumerate(systems_text.splitlines(), 1) if line == "  - name: system"]
    words = found.format(first=starts[0])
    finding = finding_in(tmp_path / SYSTEMS.name, systems_text.replace(old, new, 1), words)
    assert finding.line == starts["A100" in old]


def test_the_shipped_systems_and_numbers_without_quotes_have_no_findings(tmp_path, systems_text):
    assert lint(checkout() / SYSTEMS) == []
    file = tmp_path / SYSTEMS.name
    file.write_text(systems_text.replace('devices_sweep,      _: "1 2"', "devices_sweep,      _: 2", 1))
    assert lint(file) == []
    assert read_systems(file)["CPU"].devices_sweep == "2"


@pytest.mark.parametrize("text", ["", "name: work", "parameterset: []"])
def test_a_file_without_a_system_is_said_to_describe_none(tmp_path, text):
    file = tmp_path / SYSTEMS.name
    file.write_text(text)
    with pytest.raises(RecordError, match="describes no system"):
        read_systems(file)


def test_a_workflow_is_checked_with_the_systems_that_it_takes(tmp_path, file, systems_text):
    (tmp_path / SYSTEMS.name).write_text(systems_text.replace("name: vendor,", "name: vendro,", 1))
    use = f"use: [sweep, {{from: {SYSTEMS.name}, _: system}}]"
    file.write_text(GOOD.replace("use: [sweep]", use))
    assert any("did you mean 'vendor'?" in finding.text for finding in lint(file))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("010", "8"),
        ("0x1F", "31"),
        ("1:30", "90"),
        ("yes", "True"),
        ("Off", "False"),
        ("-017", "-15"),
    ]
    + [(same, None) for same in ("10", "0.50", "1e3", "2e4", "true", "'010'", '"NO"', "a: 1", "2026-01-01", "~", "+5")],
)
def test_what_jube_reads_otherwise_than_it_is_meant_is_found(file, text, read):
    file.write_text(GOOD + f"comment: {text if text != 'a: 1' else '{a: 1}'}\n")
    said = f"has '{text}', which JUBE reads as {read}, after YAML 1.1: put it in quotes"
    assert [finding.text for finding in lint(file) if "YAML" in finding.text] == [said] * bool(read)
