"""A case in, the report out; the table of rules, strongest first. Touches nothing.

A Case is one look with all that is known of it. `standing` says what state the job is in and why;
each rule of RULES then says one more thing worth knowing, or nothing. A cause goes before the
state's own words; the strongest is the report's reason, the others are its evidence.
"""

from __future__ import annotations

from watch_inference import units
from watch_inference.folding import happenings
from watch_inference.judging import (
    rows,
    rules_log,
    rules_machine,
    rules_pace,
    rules_process,
    rules_server,
)
from watch_inference.judging.case import Case
from watch_inference.judging.standing import standing
from watch_inference.judging.verdict import Rule, Standing, Verdict
from watch_inference.model import Happening, Report, State

# Strongest first. To name one more worry, write a rule and give it a line here.
RULES: tuple[Rule, ...] = (
    # What explains a silence, or a part that is lost: verdicts with `cause`.
    rules_process.dead_disk,
    rules_process.some_stopped,
    rules_process.shard_gone,
    *rules_machine.RULES,
    *rules_server.RULES,
    rules_log.only_retries,
    rules_log.only_noise,
    # What is wrong with what is there.
    rules_log.lost,
    rules_log.nothing_written,
    rules_log.behind,
    rules_log.surplus,
    rules_log.ahead,
    rules_log.log_trouble,
    rules_pace.errors_rise,
    rules_pace.odd_answers,
    rules_log.not_on_disk,
    # What is slow, or only looks wrong.
    rules_pace.fell,
    rules_pace.last_answers,
    rules_log.buffered_log,
    rules_process.no_log,
    # What is worth knowing, and never the reason unless it is news.
    rules_process.restarted,
    rules_pace.own_eta,
)
# Each of these says what the one after it would say again, more weakly.
_INSTEAD = (
    (rules_log.only_retries, rules_log.only_noise),
    (rules_log.lost, rules_log.behind),
    (rules_log.nothing_written, rules_log.behind),
    (rules_log.nothing_written, rules_pace.fell),
)
_SHOWN_STALLS = 3


def judge(case: Case, rules: tuple[Rule, ...] = RULES) -> Report:
    """Judge one look at the job."""
    stands, verdicts = _verdicts(case, rules)
    quiet = case.silence_s
    happened = happenings.stalls(
        case.progress.happened,
        stands.state,
        case.sample.wall,
        (quiet or 0.0) if case.begun else 0.0,
        case.progress.current,
    )
    causes = [one for one in verdicts if one.cause]
    own = [Verdict(stands.reason, stands.advice)] if stands.reason else []
    strong = [*causes, *own, *(one for one in verdicts if not one.cause and not one.aside)]
    aside = [one.reason for one in verdicts if one.aside] + _stalls(happened, case.sample.wall)
    if not strong and aside and stands.state is State.FINISHED:
        strong = [Verdict(aside.pop())] if happened else strong
    return rows.compose(case, stands.state)._replace(
        reason=strong[0].reason if strong else "",
        evidence=tuple(one.reason for one in strong[1:]) + tuple(aside),
        facts=rows.facts(case),
        advice=next((one.advice for one in (*strong, *verdicts) if one.advice), ""),
        over=_over(case, stands),
        quiet_s=quiet,
        happened=happened,
    )


def _verdicts(case: Case, rules: tuple[Rule, ...]) -> tuple[Standing, list[Verdict]]:
    """Ask every rule; where the strongest has evidence for another state, ask them again in it."""
    stands = standing(case)
    found = _asked(case, stands, rules)
    states = (one.state for one in found.values() if one.state is not None)
    other = next((state for state in states if state is not stands.state), None)
    if other is not None:
        stands = Standing(other)
        found = _asked(case, stands, rules)
    return stands, list(found.values())


def _asked(case: Case, stands: Standing, rules: tuple[Rule, ...]) -> dict[Rule, Verdict]:
    found = {rule: verdict for rule in rules if (verdict := rule(case, stands)) is not None}
    for stronger, weaker in _INSTEAD:
        if stronger in found:
            found.pop(weaker, None)
    return found


def _over(case: Case, stands: Standing) -> bool:
    if case.alive:
        return False
    # Whatever is not known of it, a job whose process or whose log has ended is over.
    ended = bool(case.gone) or any(log.path == "-" and log.error for log in case.sample.logs)
    finished = stands.state in (State.FINISHED, State.FAILED)
    return finished or (ended and stands.state is State.UNKNOWN)


def _stalls(happened: tuple[Happening, ...], wall: float) -> list[str]:
    """Say which stalls the job has got over, and when it was started again."""
    past = [one for one in happened if one.kind == "stall" and one.ended is not None]
    if not past:
        return []
    times = [
        f"{units.clock(one.began, wall, with_zone=False)} for "
        f"{units.duration((one.ended or one.began) - one.began)}"
        for one in past[-_SHOWN_STALLS:]
    ]
    often = "once" if len(past) == 1 else f"{len(past)} times"
    last = "" if len(past) <= _SHOWN_STALLS else ", last"
    return [f"stalled {often}{last}: {', '.join(times)}"]
