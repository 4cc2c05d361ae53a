"""The command line."""

from pathlib import Path

import pytest

import movegrad as mg
from movegrad._cli import main

RIGHT = "import movegrad as mg\nproblem = mg.problems.TopK(5, k=2)\ndef make():\n    return problem\nnothing = 3\n"
WRONG = "import movegrad as mg\nproblem = mg.problems.Hypercube(3, exactly=2)\n"


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    (tmp_path / "right.py").write_text(RIGHT, encoding="utf-8")
    (tmp_path / "wrong_one.py").write_text(WRONG, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("target", ["right:problem", "right:make", "right.py:problem"])
def test_check_of_a_right_problem_succeeds(files, capsys, target):
    assert main(["check", target]) == 0
    assert "right on 10 solutions" in capsys.readouterr().out


def test_check_of_a_wrong_problem_fails_and_says_why(files, capsys):
    assert main(["check", "wrong_one:problem"]) == 1
    assert "4 of 8 solutions cannot be reached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("right", "must be MODULE:OBJECT"),
        ("missing:problem", "module that can be imported, got 'missing'"),
        ("missing.py:problem", "does not exist"),
        ("right:absent", "object of right, got 'absent'"),
        ("right:nothing", "got int"),
    ],
)
def test_wrong_call_is_one_sentence(files, capsys, target, message):
    assert main(["check", target]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_version(capsys):
    assert main(["version"]) == 0
    assert capsys.readouterr().out.strip() == mg.__version__


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "check" in capsys.readouterr().out
