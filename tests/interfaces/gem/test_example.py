"""`examples/gem_usage.py`: what a reader is shown first."""

import pytest

from examples.gem_usage import main


def test_the_example_prints_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    main()

    assert (
        capsys.readouterr().out
        == """\
workflow: success=True calls=5 result='a.txt'
  2 files, 5 words
mistakes: success=False calls=3 result=None
  'read_file' failed: no file or folder 'missing.txt'
  'read_file' failed: path '../outside.txt' leads out of the workspace
  ToolError: no tool 'no_such_tool'; the tool executor says: Tool not found: no_such_tool
many calls: success=True calls=100 result=100
summary.txt: ONE TWO THREE
"""
    )
