"""``lecturecheck fit``: arguments that cannot be used."""

import pytest

from pytest_lecturecheck.commands.main import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.ipynb"], "nowhere.ipynb: there is no such file"),
        (["nowhere.ipynb", "--runs", "1", "--", "--lecture-timeout", "9"], "nowhere.ipynb: there is no such file"),
        (["--runs", "0", "a.md"], "--runs 0: expected at least 1"),
        (["--from", "x", "a.md"], "--from: size 'x' is not understood"),
        (["--step", "0", "a.md"], "--step: size '0' has no unit"),
        (["--from", "2GB", "--to", "1GB", "a.md"], "--to 1GB is less than --from 2GB"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text("text", encoding="utf-8")

    assert main(["fit", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "try 1" not in error
