"""What JUBE would accept in silence."""

from __future__ import annotations

import pytest

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
        ("outpath: out", "outpath: out\noutpath: other", 3, "'outpath' is written twice, first in line 2"),
        (
            '      - {name: program, _: "train',
            '      - {name: batch, _: 4}\n      - {name: program, _: "train',
            7,
            "parameter 'batch' is there twice, first in line 6",
        ),
        ("train $batch in", "train $bach in", 7, "no parameter 'bach' in step 'train': did you mean '$batch'?"),
        ("_: $program", "_: $programs", 14, "no parameter 'programs' in step 'train'"),
        ("use: [sweep]", "use: [sweeps]", 13, "there is no set 'sweeps' in this file"),
        ("use: [sweep]", "use: [{from: other.yaml, _: sweep}]", 13, "there is no file other.yaml"),
        ("depend: prepare", "depend: prepared", 11, "depends on 'prepared', which is no step"),
        ("step: train", "step: trian", 22, "reads step 'trian', which is no step"),
        ("use: analyse", "use: analyze", 24, "uses 'analyze', which is no analyser"),
        ("title: speed, _: speed", "title: speed, _: sped", 29, "column 'sped' is neither a parameter nor a pattern"),
        ("name: work", "name: [work", 2, "is no YAML"),
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
        (b"a: [", "is no YAML"),
        (b"", "must hold keys"),
        (b"- a", "must hold keys"),
        (b"name: \xe4", "is not in UTF-8"),
        (b"[" * 3000, "nested too deeply"),
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
