"""The examples run and print what they are to print, and the types of everything are right."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import cantle

EXAMPLES = Path(__file__).parents[3] / "examples" / "python"
PACKAGE = Path(cantle.__file__).parent


def run(*command):
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300)


def test_flights(tmp_path):
    done = run(EXAMPLES / "flights.py", tmp_path / "store")
    assert (done.stderr, done.stdout.splitlines()) == (
        "",
        ["1545 from EWR on 2013-07-05: on time", "1545 from EWR on 2013-07-04: delayed", "left: 3", "before: 4 now: 2"],
    )


def test_words(tmp_path):
    done = run(EXAMPLES / "words.py", tmp_path / "store", "b", "c", "a", "b")
    assert (done.stderr, done.stdout.splitlines()) == ("", ["b 2", "c 1"])


def test_the_documented_examples_do_what_they_say():
    assert doctest.testmod(cantle).attempted > 3
    assert doctest.testmod(cantle).failed == 0


def test_everything_is_documented():
    classes = [getattr(cantle, name) for name in cantle.__all__]
    things = classes + [vars(kind)[name] for kind in classes if isinstance(kind, type) for name in vars(kind) if name[0] != "_" and callable(vars(kind)[name])]
    assert [thing for thing in things if not thing.__doc__] == []


def test_the_package_and_the_examples_are_typed_strictly():
    pytest.importorskip("mypy")
    done = run("-m", "mypy", "--strict", "--python-version", "3.10", "-p", "cantle")
    assert done.returncode == 0, done.stdout
    for file in (*sorted(EXAMPLES.glob("*.py")), Path(__file__).parent / "typed.py"):
        done = run("-m", "mypy", "--strict", file)
        assert done.returncode == 0, done.stdout


def test_the_stubs_are_of_what_is_there():
    pytest.importorskip("mypy")
    done = run("-m", "mypy.stubtest", "cantle")
    assert done.returncode == 0, done.stdout
