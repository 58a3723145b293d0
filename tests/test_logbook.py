"""What a log says, folded: headings, restarts, resumes, unnamed lines, bars, trouble."""

from __future__ import annotations

from watch_inference.logs.logbook import Book
from watch_inference.model import LogReading

NAMES = ("B1_glaive", "B2_dolly", "B3_magicoder")


def line(done: int, total: int, errors: int = 0) -> str:
    return f"{done}/{total} ({errors} err) 0.7 req/s avg_comp=788tok ETA=4.0h"


def read(*texts: str, names: tuple[str, ...] = NAMES) -> LogReading:
    book = Book(names)
    book.feed("".join(text + "\n" for text in texts).encode(), None)
    return book.fill(LogReading("x.log"))


def counts(reading: LogReading) -> dict[str, tuple[int, int | None]]:
    return {one.name: (one.done, one.total) for one in reading.datasets}


def test_lines_belong_to_the_dataset_that_a_heading_named() -> None:
    reading = read(
        "=== [1/3] B1_glaive: 100 prompts ===",
        line(50, 100),
        line(100, 100),
        "=== B1_glaive: finished ===",
        "=== [2/3] B2_dolly: 150 prompts ===",
        "noise 1/2 (9120 > 8192)",
        line(50, 150, 2),
    )
    assert counts(reading) == {"B1_glaive": (100, 100), "B2_dolly": (50, 150)}
    assert reading.current == "B2_dolly"
    assert reading.unparsed == 4
    assert reading.datasets[1].errors == 2


def test_the_next_dataset_of_the_same_total_is_not_a_restart() -> None:
    reading = read("B1_glaive", line(50, 100), line(100, 100), "B2_dolly", line(50, 100))
    assert counts(reading) == {"B1_glaive": (100, 100), "B2_dolly": (50, 100)}
    assert reading.restarts == 0


def test_a_heading_before_the_first_line_of_a_dataset_makes_it_the_current_one() -> None:
    assert read("B1_glaive", line(100, 100), "--- B2_dolly ---", "loading").current == "B2_dolly"


def test_a_list_of_all_datasets_on_one_line_is_no_heading() -> None:
    reading = read("B1_glaive", line(50, 100), "todo: B2_dolly, B3_magicoder", line(100, 100))
    assert counts(reading) == {"B1_glaive": (100, 100)}


def test_a_prefix_that_names_a_dataset_beats_the_heading() -> None:
    reading = read("B1_glaive", "[B2_dolly] " + line(5, 10), "[B3_magicoder] " + line(7, 10))
    assert counts(reading) == {"B2_dolly": (5, 10), "B3_magicoder": (7, 10)}


def test_a_second_run_of_the_same_dataset_is_a_restart_and_only_the_newest_counts() -> None:
    reading = read(
        "== B1_glaive ==",
        line(50, 100),
        line(80, 100, 3),
        "== B1_glaive: 100 prompts, 79 already done ==",
        line(10, 21),
    )
    (one,) = reading.datasets
    assert (one.done, one.total, one.runs, one.earlier, one.resumed) == (10, 21, 2, 80, 79)
    assert one.errors == 0
    assert reading.restarts == 1


def test_what_a_heading_says_was_done_before_is_kept_as_resumed() -> None:
    reading = read(
        "=== [1/3] B1_glaive: 10000 prompts, 4223 already done, concurrency=150 ===",
        line(50, 5777),
    )
    assert reading.datasets[0].resumed == 4223
    reading = read("B1_glaive", "Skipping first 4158 input samples", line(50, 5842))
    assert reading.datasets[0].resumed == 4158


def test_how_a_run_asks_is_taken_from_its_own_heading() -> None:
    reading = read(
        "=== B1_glaive: 100 prompts, 0 already done, concurrency=150 max_tokens=10240 ===",
        "huggingface/tokenizers: concurrency of 12 forks, max_tokens unknown",
        line(50, 100),
        line(100, 100),
        "=== B2_dolly: 100 prompts, 0 already done, concurrency=32 max_new_tokens: 4096 ===",
        line(50, 100),
    )
    asked = [(one.name, one.concurrency, one.max_tokens) for one in reading.datasets]
    assert asked == [("B1_glaive", 150, 10240), ("B2_dolly", 32, 4096)]
    assert read("B1_glaive", line(50, 100)).datasets[0].concurrency is None


def test_lines_that_no_one_names_are_told_apart_by_their_totals() -> None:
    reading = read(line(50, 100), line(100, 100), line(50, 150), line(100, 150))
    assert [(one.name, one.done, one.total) for one in reading.datasets] == [
        ("", 100, 100),
        ("", 100, 150),
    ]


def test_a_total_that_grows_is_the_same_run() -> None:
    reading = read(line(5000, 10000), line(6000, 12500), line(7000, 12500), names=())
    assert counts(reading) == {"": (7000, 12500)}
    assert reading.restarts == 0


def test_a_count_that_comes_out_of_order_is_not_a_restart() -> None:
    reading = read("B1_glaive", line(150, 1000), line(149, 1000), line(151, 1000))
    assert (reading.restarts, counts(reading)) == (0, {"B1_glaive": (151, 1000)})


def test_one_bar_a_dataset_is_read_from_carriage_return_frames() -> None:
    def bar(name: str, done: int) -> str:
        return f"\r{name}:  50%|#####     | {done}/100 [00:10<00:10,  5.00it/s]"

    text = "".join(bar("B1_glaive", n) for n in (0, 50, 100)) + "\n" + bar("B2_dolly", 7)
    book = Book(NAMES)
    head, tail = text.rsplit("\r", 1)
    book.feed((head + "\r").encode(), None)
    book.peek(tail.encode(), 5.0)
    reading = book.fill(LogReading("x.log"))
    assert counts(reading) == {"B1_glaive": (100, 100), "B2_dolly": (7, 100)}
    assert reading.format == "tqdm"


def test_bars_that_load_or_map_are_never_the_jobs_progress() -> None:
    reading = read(
        "Loading checkpoint shards: 100%|##########| 4/4 [00:02<00:00,  1.43it/s]",
        "Map (num_proc=16):  14%|#         | 1234/9000 [00:05<00:52, 164.16 examples/s]",
        names=(),
    )
    assert reading.datasets == ()
    assert reading.unparsed == 2


def test_a_bar_beside_the_jobs_own_lines_is_not_its_progress() -> None:
    reading = read(
        "B1_glaive",
        line(50, 100),
        "batch: 100%|##########| 4/4 [00:02<00:00,  1.43it/s]",
        line(60, 100),
    )
    assert counts(reading) == {"B1_glaive": (60, 100)}


def test_lines_arrive_in_pieces_and_mean_the_same() -> None:
    texts = ["B1_glaive", *(line(n, 100) for n in range(10, 101, 10)), "B2_dolly", line(5, 50)]
    whole = read(*texts)
    book = Book(NAMES)
    for text in texts:
        book.feed(text.encode() + b"\n", None)
    assert book.fill(LogReading("x.log")) == whole


def test_what_is_kept_of_a_long_log_is_bounded() -> None:
    reading = read("B1_glaive", *(line(n, 100000) for n in range(10, 100000, 10)))
    (one,) = reading.datasets
    assert len(one.lines) <= 60
    assert (one.lines[0].done, one.lines[-1].done, one.step) == (10, 99990, 10)


def test_the_exception_is_remembered_over_later_noise() -> None:
    reading = read(
        "Traceback (most recent call last):",
        '  File "run.py", line 3, in <module>',
        "    main()",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        *(f"ERROR client: Connection reset {n}" for n in range(300)),
    )
    assert reading.last_error == (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    )


def test_a_line_at_level_error_is_remembered_where_there_is_no_exception() -> None:
    assert read("2026-02-24 ERROR client: refused\x1b[31m").last_error == (
        "2026-02-24 ERROR client: refused"
    )


def test_the_schedulers_last_word_is_remembered() -> None:
    text = "slurmstepd: error: *** JOB 991 ON n1 CANCELLED AT 2026-02-24 DUE TO TIME LIMIT ***"
    assert read(text).last_error == text
