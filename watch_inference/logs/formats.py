"""The table of known progress formats: data, and no code. Touches nothing.

To add a format, add one entry to FORMATS: a name, the rarest literals that each of its lines holds
one of, a pattern with named groups, and sample lines with what they mean (each sample is a test).
"""

from __future__ import annotations

from typing import NamedTuple

_COUNT = rb"\d{1,15}"
_SCALED = rb"\d{1,15}(?:\.\d{1,6})?[kMGTPEZY]?"
_CLOCK = rb"-?\d[\d:]{0,30}"
_TQDM_RATE = rb"(?P<rate>-?" + _SCALED + rb"|\?)\s?(?P<unit>s/[^,\]\s]{1,30}|[^,\]/\d]{1,30}/s)"


class Format(NamedTuple):
    """One progress format. `closing`: the token that ends a line that has no newline yet."""

    name: str
    literals: tuple[bytes, ...]
    pattern: bytes
    samples: tuple[tuple[str, dict[str, object]], ...]
    closing: bytes | None = None
    extras: tuple[bytes, ...] = ()  # searched on the same line, in any order
    described: bool = False  # what stands before the match is the bar's description


_REFERENCE_EXTRAS = (
    rb"(?P<rate>\d{1,9}(?:\.\d{1,6})?)\s*req/s",
    rb"avg_comp=(?P<tokens>\d{1,9}(?:\.\d{1,6})?)\s*tok",
    rb"ETA=\s*(?P<eta>\S{1,20})",
)

_REFERENCE = (
    rb"(?<![\w/.\-])(?P<done>" + _COUNT + rb")\s?/\s?(?P<total>" + _COUNT + rb"|\?)\s*"
    rb"\(\s*(?P<errors>" + _COUNT + rb")\s*err(?:s|ors?)?\)"
)

FORMATS: tuple[Format, ...] = (
    Format(
        name="reference",
        # The whole line's own literal is rare and long, so that a large log is searched fast.
        literals=(b" req/s avg_comp=",),
        pattern=_REFERENCE,
        extras=_REFERENCE_EXTRAS,
        samples=(
            (
                "150/10000 (0 err) 0.7 req/s avg_comp=788tok ETA=4.0h",
                {"done": 150, "total": 10000, "errors": 0, "rate": 0.7},
            ),
        ),
    ),
    Format(
        name="reference",
        literals=(b" err)", b" errs)", b" errors)"),
        pattern=_REFERENCE,
        extras=_REFERENCE_EXTRAS,
        samples=(
            (
                "150/10000 (0 err) 0.7 req/s avg_comp=788tok ETA=4.0h",
                {
                    "done": 150,
                    "total": 10000,
                    "errors": 0,
                    "rate": 0.7,
                    "completion_tokens": 788.0,
                    "eta_s": 14400.0,
                },
            ),
            (
                "2026-02-24 10:11:12,123 INFO run: 9870/10000 (12 err) 0.4 req/s ETA=5m",
                {"done": 9870, "errors": 12, "eta_s": 300.0, "completion_tokens": None},
            ),
            ("[rank3]: 10000/10000 (13 errors) 0.5 req/s ETA=0s", {"done": 10000, "eta_s": 0.0}),
            ("  4/9 (1 err) 0.1 req/s ETA=1.5d", {"done": 4, "total": 9, "eta_s": 129600.0}),
            ("150/? (40 err)", {"done": 150, "total": None, "errors": 40}),
        ),
    ),
    Format(
        name="reference",
        literals=(b" req/s",),
        pattern=(
            rb"(?<![\w/.\-])(?P<done>"
            + _COUNT
            + rb")\s?/\s?(?P<total>"
            + _COUNT
            + rb")(?=[\s,;:(])"
        ),
        extras=_REFERENCE_EXTRAS,
        samples=(
            (
                "B1: 50/600 2.5 req/s avg_comp=90tok ETA=220s",
                {"done": 50, "total": 600, "errors": None, "rate": 2.5, "eta_s": 220.0},
            ),
        ),
    ),
    Format(
        name="tqdm",
        literals=(b"%|", b"% Completed |"),
        closing=b"]",
        described=True,
        pattern=(
            rb"(?<![\d.])\d{1,3}%\s*(?:Completed\s*)?\|[^|\r\n]{0,300}\|\s*"
            rb"(?P<done>" + _SCALED + rb")/(?P<total>" + _SCALED + rb"|\?)\s*[^\[\]\d]{0,40}"
            rb"\[(?P<elapsed>" + _CLOCK + rb")<(?P<eta>" + _CLOCK + rb"|\?),\s*"
            rb"(?:" + _TQDM_RATE + rb")(?:, [^\]\r\n]{0,300})?\]"
        ),
        samples=(
            (
                "Processing:   0%|          | 0/10000 [00:00<?, ?it/s]",
                {"done": 0, "total": 10000, "dataset": "Processing", "rate": None, "eta_s": None},
            ),
            (
                "Processing:   2%|▏         | 150/10000 [03:34<3:54:32,  1.43s/it]",
                {"done": 150, "total": 10000, "elapsed_s": 214.0, "eta_s": 14072.0},
            ),
            (
                "B1_glaive:  42%|####4     | 4210/10000 [56:02:00<77:19:25, 48.08s/it]",
                {"done": 4210, "dataset": "B1_glaive", "elapsed_s": 201720.0},
            ),
            (
                "weights:  14%|█▎        | 1.18M/8.58M [15:05<1:34:52, 1.36kB/s]",
                {"done": 1180000, "total": 8580000, "dataset": "weights"},
            ),
            (
                "Epoch 1:  40%|████      | 120/300 [01:00<01:30,  2.00it/s, loss=1.92, lr=3e-5]",
                {"done": 120, "total": 300, "rate": 2.0, "dataset": "Epoch 1"},
            ),
            (
                "resumed:   5%|▌         | 500/10000 [1:00:00<-1:16:00, -2.08it/s]",
                {"done": 500, "rate": None, "eta_s": None},
            ),
            (
                " 70%|███████   | 7/10 [00:10<00:04,  1.43s/it]Token indices are too long (9 > 8)",
                {"done": 7, "total": 10, "dataset": None},
            ),
        ),
    ),
    Format(
        name="tqdm",
        literals=(b"it/s]", b"s/it]", b"it/s,", b"s/it,"),
        closing=b"]",
        described=True,
        pattern=(
            rb"(?<![\w/.])(?P<done>" + _SCALED + rb")\s?it\s*"
            rb"\[(?P<elapsed>" + _CLOCK + rb"),\s*(?:" + _TQDM_RATE + rb")(?:, [^\]\r\n]{0,300})?\]"
        ),
        samples=(
            (
                "rows: 9873it [1:01:01,  2.70it/s]",
                {"done": 9873, "total": None, "dataset": "rows", "rate": 2.7},
            ),
            ("0it [00:00, ?it/s]", {"done": 0, "total": None, "dataset": None}),
        ),
    ),
)

# Bars that are never the job's work: loading, mapping, submitting.
NOT_WORK = (
    r"(?i)\b(loading|fetching|download\w*|capturing|map|filter|generating \w+ split|saving|"
    r"adding requests|rendering prompts|tokenizing|building contexts|checking cached|weights|"
    r"creating json|resolving data|warm[- ]?up|profiling|batches|uploading)\b"
)
