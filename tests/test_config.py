"""Words and a settings file become Options, or one line that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from watch_inference import config
from watch_inference.model import Options


def options(*argv: str) -> Options:
    return config.options(config.words(argv).given)


def test_nothing_typed_means_the_defaults() -> None:
    assert options() == Options()


def test_every_option_is_read() -> None:
    read = options(
        *("job", "-n", "10", "--plain", "--log", "a.log", "--log", "b.log", "--outputs", "o.jsonl"),
        *("--prompts", "p.jsonl", "--total", "B1=10", "--total", "20", "--pid", "7"),
        *("--stall-after", "5m", "--allow-missing", "3", "--color", "never", "--ascii"),
        *("--count", "files", "--match", "run_.*py", "--no-cache"),
    )
    assert read == Options(
        targets=("job",),
        form="plain",
        interval=10.0,
        logs=("a.log", "b.log"),
        outputs=("o.jsonl",),
        prompts=("p.jsonl",),
        counting="files",
        totals=(("B1", 10), (None, 20)),
        pids=(7,),
        match="run_.*py",
        stall_after=300.0,
        allow_missing=3,
        color="never",
        ascii=True,
        cache=False,
    )


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--plain", "--json"], "--plain and --json exclude each other"),
        (["--once", "--wait"], "--once and --wait exclude each other"),
        (["-n", "0"], "'0' is not a number of seconds from 0.1 to 3600"),
        (["-n", "nan"], "'nan' is not a number of seconds"),
        (["-n", "1_0"], "'1_0' is not a number of seconds"),
        (["-n"], "expected one argument"),
        (["--stall-after", "soon"], "'soon' is no length of time: 90s, 5m, 1h"),
        (["--stall-after", "0s"], "'0s' is no length of time"),
        (["--total", "B1=x"], "'x' is not a whole number"),
        (["--total", "=5"], "no dataset before the ="),
        (["--allow-missing", "-1"], "--allow-missing"),
        (["--pid", "abc"], "'abc' is no process id"),
        (["--color", "sometimes"], "--color"),
        (["--no-such"], "--no-such"),
        (["--onc"], "--onc"),
    ],
)
def test_wrong_use_is_named_in_one_line(argv: list[str], said: str) -> None:
    with pytest.raises(config.Misuse) as error:
        options(*argv)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def settings(folder: Path, text: str) -> dict[str, object]:
    path = folder / "watch_inference.toml"
    path.write_text(text)
    return config.settings(str(path))


def test_a_settings_file_fills_in_what_was_not_typed(tmp_path: Path) -> None:
    said = settings(
        tmp_path,
        'interval = 5\nlog = ["a.log"]\nstall_after = "5m"\nascii = true\njson = false\n'
        "[total]\nB1 = 10\n",
    )
    read = config.options(config.words(["-n", "7"]).given, said)
    assert (read.interval, read.logs, read.stall_after) == (7.0, ("a.log",), 300.0)
    assert (read.ascii, read.form, read.totals) == (True, "auto", (("B1", 10),))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("interval = 0", "0.1 to 3600"),
        ("nonsense = 1", "--nonsense"),
        ('config = "x"', "config is no setting"),
        ("interval = [", "watch_inference.toml"),
    ],
)
def test_a_settings_file_that_makes_no_sense_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(config.Misuse) as error:
        settings(tmp_path, text)
    assert said in str(error.value)
    assert "watch_inference.toml" in str(error.value)


def test_a_settings_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(config.Misuse, match="No such file"):
        config.settings(str(tmp_path / "none.toml"))
