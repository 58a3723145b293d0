"""A batch against a real server that nobody here wrote, watched on the screen; not part of CI.

    python -m venv /tmp/real && /tmp/real/bin/pip install torch 'transformers[serving]' openai
    /tmp/real/bin/pip install -e '.[dev]' && /tmp/real/bin/python -m tests.real_server

It makes a tiny model with random weights, serves it with `transformers serve`, and drives it with
the `openai` client through three unlike datasets in the shape of the reference job. Meanwhile the
server is stopped, let go on, killed and started again. What the screen said each time is printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

DATASETS = {"B1_short": (300, 8), "B2_long": (60, 48), "B3_mixed": (150, 0)}
SENTENCE = "The quick brown fox jumps over the lazy dog, and asks why the sky is blue. "
CONCURRENCY = 8
EVERY = 50


def make_model(folder: Path) -> None:
    """Save a model of two small layers and a tokenizer of bytes, trained on one sentence."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    bytewise = ByteLevelBPETokenizer()
    bytewise.train_from_iterator([SENTENCE] * 10, vocab_size=400, special_tokens=["<s>", "</s>"])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytewise._tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def serve(model: Path, port: int) -> subprocess.Popen[bytes]:
    """Start the server, and wait until it answers."""
    program = Path(sys.executable).with_name("transformers")
    command = [program, "serve", model, "--host", "127.0.0.1", "--port", str(port)]
    with (model.parent / "server.log").open("ab") as log:
        server = subprocess.Popen(
            [*map(str, command), "--device", "cpu"],
            stdout=log,
            stderr=log,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            start_new_session=True,
        )
    for _ in range(240):
        try:
            with urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return server
        except (URLError, OSError):
            time.sleep(0.5)
    raise SystemExit("the server never answered")


async def client(root: Path, url: str, model: str) -> None:
    """Be the job: finish every prompt of every dataset, and write what the reference job writes."""
    from openai import AsyncOpenAI

    api = AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=600)
    for number, name in enumerate(DATASETS, 1):
        folder = root / name
        prompts = [json.loads(line) for line in (folder / "prompts.jsonl").open()]
        print(f"=== [{number}/{len(DATASETS)}] {name}: {len(prompts)} prompts ===", flush=True)
        began, tokens, done = time.monotonic(), 0, 0
        gate = asyncio.Semaphore(CONCURRENCY)

        async def ask(prompt: dict[str, Any], gate: asyncio.Semaphore = gate) -> Any:
            async with gate:
                while True:
                    try:
                        return await api.chat.completions.create(
                            model=model,
                            messages=[{"role": "user", "content": prompt["prompt"]}],
                            max_tokens=prompt["max_tokens"],
                        )
                    except Exception as error:
                        print(f"WARNING retry: {type(error).__name__}: {error}", flush=True)
                        await asyncio.sleep(2)

        with (folder / "tokenized_data.jsonl").open("a") as output:
            for task in asyncio.as_completed([ask(prompt) for prompt in prompts]):
                answer = await task
                done += 1
                tokens += answer.usage.completion_tokens if answer.usage else 0
                output.write(json.dumps({"text": answer.choices[0].message.content}) + "\n")
                output.flush()
                if done % EVERY == 0 or done == len(prompts):
                    rate = done / (time.monotonic() - began)
                    left = (len(prompts) - done) / rate
                    print(
                        f"{done}/{len(prompts)} (0 err) {rate:.1f} req/s "
                        f"avg_comp={tokens // done}tok ETA={left / 60:.1f}m",
                        flush=True,
                    )


def make_job(root: Path) -> None:
    """Make the datasets: their lengths are unlike."""
    dice = random.Random(7)
    for name, (count, length) in DATASETS.items():
        (root / name).mkdir(parents=True)
        rows = (
            {"prompt": SENTENCE * dice.randint(1, 4), "max_tokens": length or dice.randint(1, 64)}
            for _ in range(count)
        )
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (root / name / "prompts.jsonl").write_text(text)
    (root / "logs").mkdir()


def main() -> None:
    """Play it through, and say what the screen said."""
    from tests.fake_server import refused_port
    from tests.live import Live

    with tempfile.TemporaryDirectory(prefix="watch_inference_real_") as name:
        folder, port = Path(name), refused_port()
        model, root = folder / "tiny", folder / "synth_real"
        make_model(model)
        make_job(root)
        servers = [serve(model, port)]
        url = f"http://127.0.0.1:{port}/v1"
        with (root / "logs" / "run.log").open("ab") as log:
            job = subprocess.Popen(
                [sys.executable, "-u", "-m", "tests.real_server", root, url, model],
                stdout=log,
                stderr=log,
            )
        try:
            command = ("sh", "-c", f"cd {root} && exec {sys.executable} -m watch_inference")
            with Live(command, env={**os.environ, "TERM": "xterm-256color"}) as screen:
                play(screen, servers, model, port)
            print(f"the job's exit status: {job.wait(60)}")
        finally:
            job.kill()
            job.wait()
            for server in servers:
                end(server)


def end(server: subprocess.Popen[bytes]) -> None:
    """Kill a server and all that it started, if it is not gone."""
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def play(screen: Any, servers: list[subprocess.Popen[bytes]], model: Path, port: int) -> None:
    """Let the server suffer, and print the screen's words."""

    def say(what: str, text: str, seconds: float) -> None:
        began = time.monotonic()
        screen.until(lambda: any(text in line for line in screen.lines), seconds, needed=False)
        took = time.monotonic() - began
        print(f"--- {what}: {text!r} after {took:.0f} s", flush=True)
        print("\n".join(line for line in screen.lines if line), flush=True)

    (server,) = servers
    say("at work", "openai", 30)
    screen.pump(10)
    os.killpg(server.pid, signal.SIGSTOP)
    say("server stopped", "STALLED", 120)
    os.killpg(server.pid, signal.SIGCONT)
    say("it goes on", "running", 60)
    screen.pump(15)
    end(server)
    say("server killed", "STALLED", 120)
    servers.append(serve(model, port))
    say("started again", "running", 60)
    say("the end", "finished", 600)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(client(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
    else:
        main()
