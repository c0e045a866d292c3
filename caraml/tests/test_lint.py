"""What JUBE would accept in silence."""

from __future__ import annotations

import pytest

from caraml.installation import SYSTEMS
from caraml.lint import lint

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
        (
            '      - {name: program, _: "train',
            '      - {name: batch, _: 4}\n      - {name: program, _: "train',
            7,
            "parameter 'batch' is written twice, first in line 6",
        ),
        ("train $batch in", "train $bach in", 7, "no parameter 'bach' in step 'train': did you mean '$batch'?"),
        ("use: [sweep]", "use: [sweeps]", 13, "there is no set 'sweeps' in this file"),
        ("use: [sweep]", "use: [{from: other.yaml, _: sweep}]", 13, "there is no file other.yaml"),
        ("depend: prepare", "depend: prepared", 11, "depends on 'prepared', which is no step before it"),
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


def test_a_file_that_is_not_there_is_a_finding(tmp_path):
    [finding] = lint(tmp_path / "none.yaml")
    assert "cannot be read: No such file" in finding.text


BLOCK = """\
X:
  vendor: nvidia
  accelerator: a device
  devices_per_node: 2
  hardware_source: a data sheet
  submit: bash
  batch_sweep: "4 8; 117M: 2 4"
"""
MISTAKES = [
    ("  vendor: nvidia", "  vendro: nvidia", "has an unknown key 'vendro': did you mean 'vendor'?"),
    ("  vendor: nvidia\n", "", "lacks 'vendor'"),
    ("submit: bash", "warmup_steps: 2; 117M", "warmup_steps is '2; 117M', but must be"),
    (BLOCK, "", "systems is {}, but must be keys"),
]


@pytest.mark.parametrize(("old", "new", "words"), MISTAKES)
def test_a_mistake_in_the_block_of_a_system_is_found_in_each_workflow(tmp_path, file, old, new, words):
    (tmp_path / "include").mkdir()
    systems = tmp_path / "include" / SYSTEMS.name
    systems.write_text(BLOCK)
    assert lint(file) == []
    assert BLOCK.count(old) == 1
    systems.write_text(BLOCK.replace(old, new))
    [finding] = lint(file)
    assert finding.file == systems
    assert words in finding.text
