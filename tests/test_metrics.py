"""What servers publish and log, in their versions; and the addresses under which they are found."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tests.fake_server import sglang, vllm
from watch_inference.probes.addresses import server_url, shown, urls_in
from watch_inference.probes.metrics import Figures, moved, read_metrics, restarted
from watch_inference.probes.serverlines import read_log, trouble


def published(page: str) -> Figures:
    figures = read_metrics(page)
    assert figures is not None
    return figures


# ------------------------------------------- under the real names, by the real client library


class Published:
    """A registry of prometheus_client, as vLLM and SGLang use it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def gauge(self, name: str, value: float, **labels: str) -> None:
        gauge = Gauge(name, name, list(labels), registry=self.registry)
        gauge.labels(**labels).set(value)

    def counter(self, name: str, *rows: tuple[float, dict[str, str]]) -> None:
        counter = Counter(name, name, list(rows[0][1]), registry=self.registry)
        for value, labels in rows:
            counter.labels(**labels).inc(value)

    def histogram(self, name: str) -> None:
        Histogram(name, name, registry=self.registry).observe(0.2)

    def page(self) -> str:
        return generate_latest(self.registry).decode()


def test_vllm_as_its_client_library_publishes_it() -> None:
    world = Published()
    labels = {"model_name": 'acme/"Zeta", 32B}', "engine": "0"}
    world.gauge("vllm:num_requests_running", 256, **labels)
    world.gauge("vllm:num_requests_waiting", 44, **labels)
    world.gauge("vllm:kv_cache_usage_perc", 0.918, **labels)
    world.counter("vllm:generation_tokens", (71403000.0, labels))
    world.counter("vllm:prompt_tokens", (1000.0, labels))
    world.counter("vllm:num_preemptions", (3.0, labels))
    world.histogram("vllm:e2e_request_latency_seconds")
    figures = published(world.page())
    assert (figures.kind, figures.running, figures.queued) == ("vllm", 256, 44)
    assert (figures.kv_usage, figures.generated, figures.steps) == (0.918, 71403000.0, True)
    assert figures.preemptions == 3.0


def test_sglang_as_its_client_library_publishes_it() -> None:
    world = Published()
    labels = {"model_name": "acme/Zeta-32B", "tp_rank": "0", "pp_rank": "0"}
    world.gauge("sglang:num_running_reqs", 48, **labels)
    world.gauge("sglang:num_queue_reqs", 3, **labels)
    world.gauge("sglang:token_usage", 0.41, **labels)
    world.gauge("sglang:gen_throughput", 2310.77, **labels)
    world.counter("sglang:generation_tokens_total", (5000.0, labels))
    world.counter(
        "sglang:realtime_tokens_total",
        (88123000.0, {"mode": "decode", **labels}),
        (1000.0, {"mode": "prefill_compute", **labels}),
    )
    figures = published(world.page())
    assert (figures.kind, figures.running, figures.queued) == ("sglang", 48, 3)
    assert (figures.kv_usage, figures.speed) == (0.41, 2310.77)
    assert (figures.generated, figures.steps) == (88123000.0, True)
    assert dict(figures.work)["realtime_tokens"] == 88124000.0


# -------------------------------------------------------------------------- versions and labels


def test_old_vllm_and_names_with_underscores_are_read() -> None:
    old = published("vllm:num_requests_running 3\nvllm:gpu_cache_usage_perc 0.974\n")
    assert (old.running, old.kv_usage, old.steps) == (3, 0.974, False)
    ray = published("vllm_num_requests_waiting 7\nvllm_generation_tokens_total 7.14e+07\n")
    assert (ray.queued, ray.generated) == (7, 71400000.0)


def test_engines_add_up_and_their_cache_is_the_fullest() -> None:
    two = vllm(running=48, queued=2, tokens=10, kv=0.4)
    two += vllm(running=2, queued=1, tokens=5, kv=0.9).replace('engine="0"', 'engine="1"')
    figures = published(two)
    assert (figures.running, figures.queued, figures.generated) == (50, 3, 15)
    assert figures.kv_usage == 0.9


def test_eight_ranks_that_repeat_one_figure_are_counted_once() -> None:
    page = "".join(
        sglang(running=48, realtime=900).replace('tp_rank="0"', f'tp_rank="{rank}"')
        for rank in range(8)
    )
    figures = published(page)
    assert (figures.running, figures.generated) == (48, 900)


def test_a_row_for_each_priority_is_not_added_to_the_row_for_all() -> None:
    page = (
        'sglang:num_running_reqs{priority=""} 48\n'
        'sglang:num_running_reqs{priority="0"} 40\nsglang:num_running_reqs{priority="9"} 8\n'
    )
    assert published(page).running == 48


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e400", "abc", "-Inf"])
def test_a_value_that_is_no_number_makes_its_figure_unknown(value: str) -> None:
    page = f'vllm:num_requests_running{{engine="0"}} {value}\nvllm:num_requests_running 4\n'
    assert published(page).running is None


def test_shares_are_read_where_a_version_writes_per_cent() -> None:
    assert published("vllm:kv_cache_usage_perc 97.5\n").kv_usage == 0.975
    assert published("vllm:kv_cache_usage_perc 9e18\n").kv_usage is None


def test_llama_cpp_tgi_and_tensorrt_are_known() -> None:
    llama = published(
        "llamacpp:requests_processing 4\nllamacpp:requests_deferred 2\n"
        "llamacpp:tokens_predicted_total 900\nllamacpp:n_decode_total 77\n"
        "llamacpp:predicted_tokens_seconds nan\n"
    )
    assert (llama.kind, llama.running, llama.queued) == ("llama.cpp", 4, 2)
    assert (llama.generated, llama.steps) == (900, True)
    tgi = published("tgi_batch_current_size 3\ntgi_queue_size 1\n")
    assert (tgi.kind, tgi.running, tgi.queued) == ("openai", 3, 1)


def test_a_page_of_another_program_is_none_of_ours() -> None:
    assert read_metrics("python_gc_objects_collected_total 3\n") is None
    assert read_metrics("<html>vllm:num_requests_running 3</html>") is None


def test_work_is_what_rises() -> None:
    before, after = published(vllm(tokens=10)), published(vllm(tokens=11))
    assert moved(before, after)
    assert not moved(before, before)
    stuck, other = sglang(realtime=5), sglang(realtime=5, speed=1.0)
    assert not moved(published(stuck), published(other))
    assert moved(published(sglang(used=1)), published(sglang(used=2)))


def test_counters_that_fall_or_a_later_start_are_another_process() -> None:
    before, after = published(vllm(tokens=100)), published(vllm(tokens=3))
    assert restarted(before, after)
    assert not restarted(before, published(vllm(tokens=100)))
    late, early = (f"process_start_time_seconds {at}\n" for at in (1500.0, 1000.0))
    assert restarted(published(early + vllm(tokens=1)), published(late + vllm(tokens=2)))


@given(st.text(alphabet='vllm:sgan_0123456789.eE+-{}"=, \n#\\x', max_size=300))
def test_no_page_breaks_the_parser_and_no_figure_is_absurd(text: str) -> None:
    figures = read_metrics(f"vllm:num_requests_running 1\n{text}")
    assert figures is not None
    for value in (figures.running, figures.queued, figures.kv_usage, figures.generated):
        assert value is None or (value >= 0 and math.isfinite(value))


# ------------------------------------------------------------------------------ servers' logs

PREFIX = "[2026-02-24 10:11:12{}] "
DECODES = {
    "2024": "Decode batch. #running-req: 8, #token: 9120, token usage: 0.03, "
    "gen throughput (token/s): 402.18, #queue-req: 5",
    "0.4": "Decode batch. #running-req: 8, #token: 9120, token usage: 0.03, accept len: 2.61, "
    "cuda graph: True, gen throughput (token/s): 402.18, #queue-req: 5",
    "0.5": "Decode batch, #running-req: 8, #token: 91820, token usage: 0.03, accept len: 2.61, "
    "accept rate: 0.65, cuda graph: True, gen throughput (token/s): 402.18, #queue-req: 5, ",
    "2026": "Decode batch [8800], #running-req: 8, #full token: 91820, full token usage: 0.03, "
    "mamba num: 48, mamba usage: 0.01, cuda graph: True, gen throughput (token/s): 402.18, "
    "#queue-req: 5",
}


@pytest.mark.parametrize("version", DECODES)
def test_sglangs_decode_line_is_read_by_key_in_all_its_versions(version: str) -> None:
    figures = read_log([PREFIX.format(" TP0") + DECODES[version]])
    assert figures is not None
    assert (figures.kind, figures.running, figures.queued) == ("sglang", 8, 5)
    assert (figures.kv_usage, figures.speed) == (0.03, 402.18)


def test_ranks_of_data_parallel_workers_add_up_and_the_newest_of_each_counts() -> None:
    lines = [PREFIX.format(f" DP{rank} TP0") + DECODES["0.5"] for rank in (0, 1, 0)]
    figures = read_log(lines)
    assert figures is not None
    assert (figures.running, figures.queued, figures.speed) == (16, 10, 804.36)


VLLM = (
    "{} Avg prompt throughput: {} tokens/s, Avg generation throughput: {} tokens/s, "
    "Running: 3 reqs, {}: 21 reqs, GPU KV cache usage: 97.4%, "
)


@pytest.mark.parametrize(
    "line",
    [
        VLLM.format("INFO 02-24 10:11:12 llm_engine.py:1]", 6.0, 58.1, "Swapped: 0 reqs, Pending")
        + "CPU KV cache usage: 0.0%.",
        VLLM.format("(APIServer pid=158) INFO [loggers.py:259] Engine 000:", 6.0, 58.1, "Waiting")
        + "Prefix cache hit rate: 12.0%",
    ],
    ids=["V0", "V1"],
)
def test_vllms_statistics_are_read_by_key(line: str) -> None:
    figures = read_log([line])
    assert figures is not None
    assert (figures.kind, figures.running, figures.queued) == ("vllm", 3, 21)
    assert (figures.kv_usage, figures.speed) == (pytest.approx(0.974), 58.1)
    assert figures.working == line


def test_a_line_with_requests_and_no_tokens_is_no_work() -> None:
    idle = VLLM.format("INFO Engine 000:", 0.0, 0.0, "Waiting")
    figures = read_log([idle])
    assert figures is not None
    assert (figures.running, figures.working, figures.line) == (3, "", idle)


def test_what_ails_a_server_is_found_in_its_log_unless_it_works_again() -> None:
    bad = PREFIX.format("") + "Watchdog timeout (self.watchdog_timeout=300)"
    good = PREFIX.format("") + DECODES["0.5"]
    assert trouble([good, bad]) == bad
    assert trouble([bad, good]) is None


# ---------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("http://gpu-7:8000", "http://gpu-7:8000"),
        ("http://gpu-7:8000/v1/", "http://gpu-7:8000"),
        ("http://gpu-7:8000/v1/chat/completions", "http://gpu-7:8000"),
        ("http://gpu-7/llm/v1", "http://gpu-7/llm"),
        ("https://[::1]:80", "https://[::1]:80"),
        ("HTTP://anna:s3cret@gpu-7:8000", "http://anna:s3cret@gpu-7:8000"),
    ],
)
def test_a_url_is_taken_as_people_copy_it(typed: str, url: str) -> None:
    assert server_url(typed) == url


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("localhost:8000", "type http://localhost:8000"),
        ("anna:s3cret@host:80", "host:80 has no scheme: type http://host:80"),
        ("http://h:99999", "the port is no number from 1 to 65535"),
        ("http://h:abc", "the port is no number from 1 to 65535"),
        ("http://h:0", "no host or port"),
        ("file:///etc/passwd", "a server is asked by http or https"),
        ("http://", "no host or port"),
        ("http://[::1", "no such host"),
        ("", "is no URL"),
        ("http://a b", "is no URL"),
        ("http://h\r\nX: 1", "is no URL"),
    ],
)
def test_a_wrong_url_is_refused_with_what_to_type_and_without_its_password(
    typed: str, says: str
) -> None:
    with pytest.raises(ValueError, match="type http://") as refusal:
        server_url(typed)
    assert says in str(refusal.value)
    assert "s3cret" not in str(refusal.value)


def test_a_password_is_shown_to_nobody() -> None:
    assert shown("http://anna:s3cr@t@gpu-7:8000/llm") == "http://gpu-7:8000/llm"


@pytest.mark.parametrize(
    ("command", "urls"),
    [
        ("python run.py --base-url http://127.0.0.1:8000/v1", ("http://127.0.0.1:8000",)),
        ("run --urls=http://a:1/v1,http://b:2/v1", ("http://a:1", "http://b:2")),
        ("run --api-base 'http://***@h:9/v1' -n 3", ("http://h:9",)),
        ("run -s http://[::1]:30000/v1", ("http://[::1]:30000",)),
        ("run --tracking-uri http://m:5000 --proxy=http://p:3128", ()),
        ("run --model https://huggingface.co/acme/zeta --wandb-url http://w:1", ()),
        ("run --api https://llm.example.org/v1", ("https://llm.example.org",)),
    ],
)
def test_servers_are_found_in_command_lines_and_other_urls_left(
    command: str, urls: tuple[str, ...]
) -> None:
    assert urls_in(command) == urls
