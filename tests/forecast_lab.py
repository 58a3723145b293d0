"""One observation of the simulator in, remaining seconds out: a translation, no estimating."""

from __future__ import annotations

from typing import Any

from watch_inference.forecasting.forecast import forecast
from watch_inference.model import LogLine, Observed, ObservedDataset, Point


def estimate(observation: dict[str, Any]) -> dict[str, float | None]:
    """Forecast one observation, and answer as the scorer reads it."""
    result = forecast(observed(observation), guess=True)
    return {"remaining_s": result.remaining_s, "lo_s": result.low_s, "hi_s": result.high_s}


def observed(observation: dict[str, Any]) -> Observed:
    """Say the observation in the forecast's own words."""
    return Observed(
        now=observation["now"],
        datasets=tuple(_dataset(dataset) for dataset in observation["datasets"]),
        process_started=observation["proc_start"],
        points=tuple(Point(at, done) for at, done in observation["polls"] or ()),
    )


def _dataset(dataset: dict[str, Any]) -> ObservedDataset:
    lines = tuple(_line(line) for line in dataset["log"])
    errors = lines[-1].errors if lines else 0
    prompts, resumed = dataset["n_prompts"], dataset["n_resumed"]
    written = dataset["n_out"] - resumed
    mean = dataset["mean_comp"]
    if mean is None and lines:
        mean = lines[-1].completion_tokens
    return ObservedDataset(
        name=dataset["name"],
        status=dataset["status"],
        prompts=prompts,
        prompts_bytes=dataset["prompts_bytes"],
        prompt_bytes_deciles=tuple(dataset["prompt_bytes_deciles"]),
        resumed=resumed,
        finished=prompts - resumed if dataset["status"] == "done" else written + errors,
        output_at=dataset["out_mtime"],
        completion_tokens=mean,
        spread=dataset["out_len_cv2"],
        remembered_tokens=dataset.get("remembered_comp"),
        remembered_rate=dataset.get("remembered_rate"),
        concurrency=dataset["concurrency"],
        max_tokens=dataset["max_tokens"],
        started=dataset["t_start"],
        ended=dataset["t_end"],
        lines=lines,
    )


def _line(line: dict[str, Any]) -> LogLine:
    hours = line["eta_h"]
    return LogLine(
        done=line["n"],
        total=line["total"],
        errors=line["err"],
        rate=line["rate"],
        completion_tokens=line["avg_comp"],
        eta_s=None if hours is None else hours * 3600.0,
        at=line["t"],
    )
