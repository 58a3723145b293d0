"""Folders of every shape, read as datasets; and the root that a folder lies in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from watch_inference.finding import folders, layout, logfiles
from watch_inference.model import Options

PLAIN = Options()
PROGRESS = "150/10000 (0 err) 0.7 req/s avg_comp=788tok ETA=4.0h\n"


def make(root: Path, *files: str) -> None:
    """Make empty files, and the folders that they need."""
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()


def shape(root: Path, options: Options = PLAIN) -> dict[str, tuple[list[str], list[str]]]:
    """Write a root's datasets as name -> (prompts, outputs), relative to the root."""

    def relative(paths: tuple[str, ...]) -> list[str]:
        return [os.path.relpath(path, root) for path in paths]

    found = layout.datasets(str(root), options)
    return {one.name: (relative(one.prompts), relative(one.outputs)) for one in found}


def test_a_folder_with_prompts_or_an_output_is_a_dataset_in_natural_order(tmp_path: Path) -> None:
    make(tmp_path, "B10/prompts.jsonl", "B2/prompts.jsonl", "A1/tokenized_data.jsonl", "x/y.txt")
    make(tmp_path, "B2/tokenized_data.jsonl", ".git/prompts.jsonl", "logs/a.log")
    assert shape(tmp_path) == {
        "A1": ([], ["A1/tokenized_data.jsonl"]),
        "B2": (["B2/prompts.jsonl"], ["B2/tokenized_data.jsonl"]),
        "B10": (["B10/prompts.jsonl"], ["B10/tokenized_data.jsonl"]),
    }


def test_the_outputs_of_ranks_are_found_as_a_glob(tmp_path: Path) -> None:
    make(tmp_path, "B1/prompts.jsonl", "B1/tokenized_data_rank0.jsonl", "B1/tokenized_data.bak")
    make(tmp_path, "B1/tokenized_data_errors.jsonl")
    outputs = shape(tmp_path)["B1"][1]
    assert outputs == ["B1/tokenized_data[-_.]*[0-9].jsonl"]
    assert folders.present(str(tmp_path / outputs[0])) == ["tokenized_data_rank0.jsonl"]


def test_what_the_ranks_wrote_is_not_counted_again_once_it_is_put_together(tmp_path: Path) -> None:
    make(tmp_path, "B1/tokenized_data_rank0.jsonl", "B1/tokenized_data.jsonl")
    os.utime(tmp_path / "B1/tokenized_data_rank0.jsonl", (1000, 1000))
    assert shape(tmp_path)["B1"][1] == ["B1/tokenized_data.jsonl"]
    os.utime(tmp_path / "B1/tokenized_data.jsonl", (900, 900))
    assert len(shape(tmp_path)["B1"][1]) == 2


def test_a_folder_for_each_rank_is_part_of_the_dataset_around_it(tmp_path: Path) -> None:
    make(tmp_path, "B1/prompts.jsonl", "B1/rank10/tokenized_data.jsonl")
    make(tmp_path, "B1/rank2/tokenized_data.jsonl", "B1/scratch/tokenized_data.jsonl")
    outputs = ["B1/rank2/tokenized_data.jsonl", "B1/rank10/tokenized_data.jsonl"]
    assert shape(tmp_path) == {"B1": (["B1/prompts.jsonl"], outputs)}


def test_ranks_that_have_all_datasets_are_summed(tmp_path: Path) -> None:
    make(tmp_path, "rank0/B1/prompts.jsonl", "rank1/B1/prompts.jsonl")
    make(tmp_path, "rank0/B1/tokenized_data.jsonl", "rank1/B1/tokenized_data.jsonl")
    prompts = ["rank0/B1/prompts.jsonl", "rank1/B1/prompts.jsonl"]
    outputs = ["rank0/B1/tokenized_data.jsonl", "rank1/B1/tokenized_data.jsonl"]
    assert shape(tmp_path) == {"B1": (prompts, outputs)}


def test_prompts_and_outputs_may_be_kept_apart(tmp_path: Path) -> None:
    make(tmp_path, "data/B1/prompts.jsonl", "outputs/B1/tokenized_data.jsonl")
    assert shape(tmp_path) == {
        "B1": (["data/B1/prompts.jsonl"], ["outputs/B1/tokenized_data.jsonl"])
    }


def test_prompts_in_the_root_are_those_of_the_one_dataset_below(tmp_path: Path) -> None:
    make(tmp_path, "prompts.jsonl", "results/tokenized_data.jsonl")
    assert shape(tmp_path) == {"results": (["prompts.jsonl"], ["results/tokenized_data.jsonl"])}
    assert layout.root_of(str(tmp_path / "results"), PLAIN) == str(tmp_path)


def test_prompts_in_the_root_are_nobodys_where_several_datasets_may_have_them(
    tmp_path: Path,
) -> None:
    make(tmp_path, "prompts.jsonl", "model_a/tokenized_data.jsonl", "model_b/tokenized_data.jsonl")
    assert shape(tmp_path) == {
        "model_a": ([], ["model_a/tokenized_data.jsonl"]),
        "model_b": ([], ["model_b/tokenized_data.jsonl"]),
    }


def test_a_root_with_prompts_and_output_is_the_dataset_whatever_lies_below(tmp_path: Path) -> None:
    make(tmp_path, "prompts.jsonl", "tokenized_data.jsonl", "old/tokenized_data.jsonl")
    assert [one.folder for one in layout.all_of(str(tmp_path), PLAIN)] == [str(tmp_path)]


def test_the_example_of_the_readme(tmp_path: Path) -> None:
    make(tmp_path, "questions.txt", "out/part-0001.jsonl", "out/part-0002.jsonl", "generate.py")
    options = Options(
        outputs=("part-*.jsonl",), prompts=("questions.txt",), totals=(("out", 5000),)
    )
    (one,) = layout.all_of(str(tmp_path), options)
    assert (one.name, one.total) == ("out", 5000)
    assert shape(tmp_path, options) == {"out": (["questions.txt"], ["out/part-*.jsonl"])}


def test_names_and_globs_are_what_was_asked_for(tmp_path: Path) -> None:
    make(tmp_path, "B1/questions.jsonl", "B1/part-1.jsonl", "B1/part-2.jsonl", "B2/prompts.jsonl")
    options = Options(prompts=("questions.jsonl",), outputs=("part-*.jsonl",))
    assert shape(tmp_path, options) == {"B1": (["B1/questions.jsonl"], ["B1/part-*.jsonl"])}


def test_a_glob_may_lie_in_a_folder_of_the_dataset(tmp_path: Path) -> None:
    make(tmp_path, "B1/prompts.jsonl", "B1/answers/1.json")
    options = Options(outputs=("answers/*.json",), counting="files")
    assert shape(tmp_path, options) == {"B1": (["B1/prompts.jsonl"], ["B1/answers/*.json"])}


def test_a_total_belongs_to_its_dataset_and_one_without_a_name_to_the_only_one(
    tmp_path: Path,
) -> None:
    make(tmp_path, "B1/prompts.jsonl")
    only = Options(totals=((None, 30),))
    assert [one.total for one in layout.datasets(str(tmp_path), only)] == [30]
    make(tmp_path, "B2/prompts.jsonl")
    assert [one.total for one in layout.datasets(str(tmp_path), only)] == [None, None]
    named = Options(totals=(("B2", 30),))
    assert [one.total for one in layout.datasets(str(tmp_path), named)] == [None, 30]


def test_a_dataset_with_two_names_is_one(tmp_path: Path) -> None:
    make(tmp_path, "z_real/prompts.jsonl")
    (tmp_path / "latest").symlink_to("z_real")
    assert list(shape(tmp_path)) == ["z_real"]


def test_a_settled_root_is_read_again_when_any_folder_of_it_changes(tmp_path: Path) -> None:
    make(tmp_path, "B1/prompts.jsonl", "B1/rank0/tokenized_data.jsonl")
    folders_of_it = [tmp_path, tmp_path / "B1", tmp_path / "B1" / "rank0"]

    def settle() -> None:
        for folder in folders_of_it:
            os.utime(folder, (1000, 1000))

    settle()
    first = layout.all_of(str(tmp_path), PLAIN)
    assert layout.all_of(str(tmp_path), PLAIN) is first
    make(tmp_path, "B1/rank0/tokenized_data_1.jsonl")
    os.utime(folders_of_it[2], (2000, 2000))
    assert layout.all_of(str(tmp_path), PLAIN) is not first
    settle()
    make(tmp_path, "B1/rank1/tokenized_data.jsonl")
    assert len(layout.all_of(str(tmp_path), PLAIN)[0].outputs) == 2


def test_a_settled_root_is_read_again_when_a_folder_of_its_results_changes(tmp_path: Path) -> None:
    make(tmp_path, "results/B1/tokenized_data.jsonl", "results/B2/notes.txt")
    for folder in (tmp_path, *tmp_path.rglob("*")):
        os.utime(folder, (1000, 1000))
    assert [one.name for one in layout.all_of(str(tmp_path), PLAIN)] == ["B1"]
    make(tmp_path, "results/B2/tokenized_data.jsonl")
    assert [one.name for one in layout.all_of(str(tmp_path), PLAIN)] == ["B1", "B2"]


def test_a_new_folder_is_seen_at_once_however_old_the_listing(tmp_path: Path) -> None:
    make(tmp_path, "B1/prompts.jsonl")
    os.utime(tmp_path, (1000, 1000))
    assert list(shape(tmp_path)) == ["B1"]
    assert list(shape(tmp_path)) == ["B1"]
    make(tmp_path, "B2/prompts.jsonl")
    assert list(shape(tmp_path)) == ["B1", "B2"]


def test_a_folder_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert folders.listing(str(tmp_path / "none")) == folders.Folder()
    assert layout.datasets(str(tmp_path / "none"), PLAIN) == ()


@pytest.mark.parametrize("below", ["", "B1", "logs", "logs/2026", "B1/rank0", "scripts"])
def test_the_root_is_found_from_within(tmp_path: Path, below: str) -> None:
    root = tmp_path / "synth"
    make(root, "B1/prompts.jsonl", "B1/rank0/tokenized_data.jsonl", "B2/prompts.jsonl")
    make(root, "logs/all.log", "logs/2026/x", "scripts/run.py")
    assert layout.root_of(str(root / below).rstrip("/"), PLAIN) == str(root)


def test_a_folder_beside_strangers_datasets_lies_in_no_root(tmp_path: Path) -> None:
    make(tmp_path, "theirs/prompts.jsonl", "mine/notes.txt")
    assert layout.root_of(str(tmp_path / "mine"), PLAIN) is None


def test_a_dataset_with_a_log_of_its_own_is_a_root(tmp_path: Path) -> None:
    make(tmp_path, "run1/prompts.jsonl", "run2/prompts.jsonl")
    (tmp_path / "run1/job.log").write_text(PROGRESS)
    assert layout.root_of(str(tmp_path / "run1"), PLAIN) == str(tmp_path / "run1")
    assert layout.root_of(str(tmp_path / "run2"), PLAIN) == str(tmp_path)


def test_a_dataset_among_folders_of_other_kinds_is_a_root(tmp_path: Path) -> None:
    make(tmp_path, "run1/prompts.jsonl", "letters/a.txt", "music/b.ogg")
    assert layout.root_of(str(tmp_path / "run1"), PLAIN) == str(tmp_path / "run1")


def test_a_dataset_with_a_program_in_it_is_a_root(tmp_path: Path) -> None:
    make(tmp_path, "run1/prompts.jsonl", "run1/generate.py", "run2/prompts.jsonl")
    assert layout.root_of(str(tmp_path / "run1"), PLAIN) == str(tmp_path / "run1")


def test_a_dataset_with_a_stray_log_lies_in_the_root_that_has_the_log(tmp_path: Path) -> None:
    make(tmp_path, "B1/prompts.jsonl", "B1/errors.log", "logs/all.log")
    assert layout.root_of(str(tmp_path / "B1"), PLAIN) == str(tmp_path)


def test_ranks_and_sides_belong_to_the_folder_around_them(tmp_path: Path) -> None:
    make(tmp_path, "a/rank0/B1/prompts.jsonl", "b/data/B1/prompts.jsonl", "b/run.log")
    make(tmp_path, "c/data/B1/prompts.jsonl")
    assert layout.root_of(str(tmp_path / "a/rank0/B1"), PLAIN) == str(tmp_path / "a")
    assert layout.root_of(str(tmp_path / "b/data"), PLAIN) == str(tmp_path / "b")
    assert layout.root_of(str(tmp_path / "c/data/B1"), PLAIN) == str(tmp_path / "c/data")


def test_the_newest_log_with_progress_is_taken_and_its_fellow_ranks(tmp_path: Path) -> None:
    texts = {"old.log": PROGRESS, "rank0.log": PROGRESS, "rank1.log": PROGRESS, "new.log": "hi\n"}
    for age, (name, text) in enumerate(texts.items()):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    found = logfiles.newest_logs(str(tmp_path))
    assert [os.path.basename(path) for path in found] == ["rank0.log", "rank1.log"]


def test_logs_of_other_runs_are_no_fellows(tmp_path: Path) -> None:
    for number in (121, 122, 123):
        (tmp_path / f"slurm-{number}.out").write_text(PROGRESS)
        os.utime(tmp_path / f"slurm-{number}.out", (1000 + number, 1000 + number))
    assert logfiles.newest_logs(str(tmp_path)) == (str(tmp_path / "slurm-123.out"),)


def test_a_pipe_named_as_a_log_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.log")
    assert logfiles.newest_logs(str(tmp_path)) == ()


def test_names_sort_as_people_count() -> None:
    names = ["B10", "B2", "b1", "B2a", "B", "٣", "B" + "9" * 5000]
    assert sorted(names, key=folders.natural)[:5] == ["B", "B2", "B2a", "B10", "B" + "9" * 5000]
