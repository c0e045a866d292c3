"""Kinds of findings: the sentence of each, its meaning, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Advice(NamedTuple):
    """Meaning of a finding, and what to do about it."""

    seriousness: int  # 0 is the most serious
    meaning: str
    remedy: str
    is_measurement: bool = True  # whether a further measurement is the remedy
    is_ranked: bool = True  # whether a run with it is


class Kind(NamedTuple):
    """Kind of finding: its sentence, with the names of its values in braces, and its advice."""

    sentence: str
    advice: Advice
    topic: str = ""  # the rule of an energy that it is the result of


METER = "Measure at the node ('jpwr --methods ipmi' or 'cray') or in the supply line ('--meter FILE')"
LEFT_OUT = Advice(0, "Records are left out.", "Ask for these results again, or repeat the runs", False)
TIE = Advice(2, "The first place is a tie.", "Repeat the best points, with more runs of each")
SIZE = Advice(1, "The size that would be bought was not measured.", "Measure on as many devices as would be bought")
PLACES = Advice(4, "Energy is measured at different places.", f"{METER} on all systems")

_RULE = Advice(4, "Energy breaks a rule, and is not ranked.", "Check its sensor, then repeat the run")
_IDLE = Advice(7, "The idle power is unknown, or near that under load.", "Leave the devices idle before a job")
_UNSTEADY = Advice(6, "Step times are not steady.", "Measure more steps on an exclusive node")
_CLOCKS = Advice(6, "Clocks may have been held back.", "Check cooling and power limit; repeat the run")
_SHARED = Advice(7, "Other jobs may have used the node.", "Request the node for this job alone")
_LATE = Advice(6, "The client of a server was late.", "Give the client processors of its own; repeat the run")
_NO_STEADY_STATE = Advice(6, "A server is in no steady state.", "Check its log; warm it up; measure a longer window")
_UNCOUNTED = Advice(7, "A server does not count all tokens.", "Switch its usage on, with prompt_tokens_details", False)
_OWN_MARK = Advice(3, "A pass mark is the run's or the site's own.", "Fix it in the requirements", False)


def _not_ranked(meaning: str, remedy: str) -> Advice:
    return Advice(1, f"{meaning}: the run is not ranked.", remedy, is_ranked=False)


def _undecided(remedy: str, is_measurement: bool = True) -> Advice:
    return Advice(1, "A requirement is undecided.", remedy, is_measurement)


_WRONG = _not_ranked("A server answers wrongly under load", "Try another version or fewer options; repeat the run")
_STEPS = _not_ranked("A server's counters do not fit its tokens", "Use it for this job alone; check its version")
_DEVICE = _not_ranked("A run is not of whole and sound devices", "Repeat it on whole devices, with ECC on")
_UNCHECKED = _not_ranked(
    "A server's answers could not be checked",
    "Let it list token ids and log-probabilities; check its log; repeat the run",
)
_SPECULATION = _not_ranked("A server's speculation is not as stated", "Check --draft-tokens, its version, its metrics")
_LEARNING = _not_ranked("A run does not learn as its reference", "Check data, precision, kernels, layout and optimizer")
_AT_POINT = _undecided("Run this workload at this point")
_REPEAT = _undecided("Repeat the runs of this point")

# Sentence of two kinds.
_LOSS = (
    "the mean loss of steps {first} to {last} is {loss:.5g}, and the limit {limit:.5g}: {runs} reference runs have "
    "{mean:.5g}"
)

KINDS: Mapping[str, Kind] = {
    "note": Kind("{text}", Advice(7, "A run has a remark.", "Read the remark; repeat the run if it matters")),
    # of a run that failed
    "failed": Kind(
        "{status}: {error}",
        Advice(3, "Runs failed.", "Read job.err of the point; 'caraml wait --retry-failed' repeats them", False),
    ),
    "out_of_memory": Kind(
        "out of memory: {error}",
        Advice(5, "Points do not fit into memory.", "Use a smaller micro batch size or more devices", False),
    ),
    # of the runs of a point
    "short_window": Kind(
        "its window is {window_s:.2g} s, at least {least_s:g} s wanted",
        Advice(5, "The measured window is too short.", "Measure longer"),
    ),
    "few_runs": Kind(
        "{runs:number of run}, {wanted} wanted",
        Advice(5, "Repeats are too few for an interval.", "Run each point three times"),
    ),
    "some_failed": Kind(
        "{failed} of {runs} runs failed", Advice(7, "Some runs of a point failed.", "Repeat the point")
    ),
    "smaller_workload": Kind(
        "not the workload of the comparison: smaller samples",
        Advice(1, "Runs are of a smaller workload.", "Run the workload in full: these runs only try the suite"),
    ),
    "shift": Kind("shift: steps take {change:+.0%} after the first {first} of {steps}", _UNSTEADY),
    "outliers": Kind("outliers: {slow} of {steps} steps are slow and cost {cost:.0%} of the time", _UNSTEADY),
    "few_steps": Kind("{steps} steps are too few to check whether they are steady, {wanted} wanted", _UNSTEADY),
    "learns_worse": Kind(_LOSS, _LEARNING),
    "learns_faster": Kind(_LOSS, _LEARNING),
    "learning_unknown": Kind(
        "the losses are not judged, as no reference fits: {why}",
        _not_ranked("A run's losses have no reference", "Make one with 'caraml reference'; name it in site.yaml"),
    ),
    "learning_short": Kind(
        "the losses are not judged: {steps:number of step}, {wanted} of the reference",
        _not_ranked("A run is too short for its losses to be judged", "Measure more steps, as the tag 'gate' does"),
    ),
    "learning_by_site": Kind("the losses are judged by the site's own reference in {file}: {source}", _OWN_MARK),
    "own_mark": Kind("{what} is what the run itself states, {value}: a buyer fixes {option}", _OWN_MARK),
    "same_losses": Kind(
        "{runs:number of run} with the losses of another one, to the last digit: the same computation, or a copy",
        Advice(7, "Repeats have the same losses.", "Repeat runs with other seeds (--seed), which copies cannot have"),
    ),
    "one_seed": Kind(
        "{runs} runs to a loss have the seed {seed}: they are one training, repeated",
        _not_ranked("Runs to a loss have one seed", "Repeat them with other seeds (--seed)"),
    ),
    "divided_device": Kind("{device} is a part of a device ({how})", _DEVICE),
    "no_ecc": Kind("ECC is off on {device}: errors of its memory are not corrected", _DEVICE),
    "ended_by_scheduler": Kind(
        "the state of its job is {state}, and no run of that job failed",
        _not_ranked("The scheduler ended the job of a good run", "Find out why; repeat the run"),
    ),
    "to_loss": Kind(
        "trained to a loss: its window begins with the first step, and its speed is not ranked",
        Advice(7, "Runs are trained to a loss.", "Run without the tag 'to-loss' for a speed", False),
    ),
    "missed_loss": Kind(
        "{missed} of {runs:number of run} did not reach the loss, at most {most} may miss it",
        Advice(1, "Runs do not reach their target loss.", "Allow more time, or state another target", False),
    ),
    "rising_loss": Kind(
        "the loss rises over the run, from {first:.4g} to {last:.4g}",
        Advice(5, "The loss rises.", "Check data and learning rate; repeat the run"),
    ),
    "throttled": Kind("throttled: {reason} held clocks back for {percent:.0f} % of the window", _CLOCKS),
    "limit_changed": Kind(
        "the power limit did not hold ({least_w:.0f} W to {most_w:.0f} W, mean {mean_w:.0f} W): no operating point",
        Advice(5, "A power limit changed during a run.", "Let nothing else change limits during a job; repeat the run"),
    ),
    "quota": Kind("throttled: CPU quota held threads back for {percent:.0f} % of the window", _CLOCKS),
    "throttling_unknown": Kind("throttling of clocks is not known", _CLOCKS),
    "code": Kind("{what}", Advice(7, "The code is not one known version.", "Commit all changes, and repeat the runs")),
    "shared": Kind("the node was shared with other jobs", _SHARED),
    "exclusive_unknown": Kind("exclusive use of the node is not known", _SHARED),
    "corrected": Kind(
        "{figure}: {recorded:.10g} recorded, {table:.10g} in the tables",
        Advice(5, "A figure of a run is not that of the tables.", "Check which one is right", False),
    ),
    # of the energy
    "energy_rule": Kind("energy, {reasons}", _RULE),
    "idle": Kind("energy, {reasons}", _IDLE),
    "estimate": Kind("energy is an estimate", Advice(4, "Energy is estimated from load, not measured.", METER)),
    "accuracy": Kind(
        "energy, accuracy of the sensor: {accuracy}",
        Advice(6, "The accuracy of the sensor is not the vendor's figure.", f"Ask the vendor. {METER}"),
    ),
    "mixed_energies": Kind(
        "its runs have energies of different kinds: the point has none",
        Advice(4, "The runs of a point measure energy at different places.", f"{METER} in all runs"),
    ),
    "sampling_rate": Kind(
        "{value:.1f} samples/s of the slowest channel, at least {limit:.1f} wanted", _RULE, "sampling rate"
    ),
    "samples": Kind("{value:.0f} samples of the slowest channel, at least {limit:.0f} wanted", _RULE, "samples"),
    "gaps": Kind("the longest time without a sample is {value:.1f} s, at most {limit:.1f} wanted", _RULE, "gaps"),
    "missing_samples": Kind(
        "{value:.1%} of the samples of the worst channel, at most {limit:.1%} wanted", _RULE, "missing samples"
    ),
    "counter_and_integral": Kind(
        "they differ by {value:.1%}, at most {limit:.1%} wanted", _RULE, "counter and integral"
    ),
    "devices_alike": Kind(
        "one used {value:.1f} times the energy of another, at most {limit:.1f} wanted", _RULE, "devices alike"
    ),
    "interval": Kind("±{value:.1%} of the energy, at most {limit:.1%} wanted", _RULE, "interval"),
    "all_devices": Kind("{known}", _RULE, "all devices"),
    "busier_elsewhere": Kind(
        "{own_w:.0f} W from the first to the last window, and {most_w:.0f} W over another time of the same length",
        _RULE,
        "window of the work",
    ),
    "idle_power": Kind("{idle_w:.1f} W", _IDLE, "idle power"),
    "idle_high": Kind(
        "{idle_w:.1f} W, compared with {power_w:.1f} W in the window: the devices may have been busy before",
        _IDLE,
        "idle power",
    ),
    # what an energy lacks for a level of the power measurement methodology
    "level": Kind(
        "{lacks}", Advice(7, "The energy reaches no higher level of the power measurement methodology.", METER)
    ),
    # of a server
    "lock_step": Kind(
        "the streams run in lock-step ({share:.2f} of 1)",
        Advice(6, "A server's requests start together.", "Measure with arrivals at random (tag 'poisson')"),
    ),
    "drift": Kind("tokens/s differ by {change:.1%} between thirds of the window", _NO_STEADY_STATE),
    "no_prompt_tokens": Kind("the server reports no prompt tokens: those that were sent are counted", _UNCOUNTED),
    "no_cached_tokens": Kind(
        "the server does not state how many prompt tokens came from its cache: the measured hit rate is missing",
        _UNCOUNTED,
    ),
    "cache_impossible": Kind(
        "{cached:.0f} prompt tokens came from a cache, but the prompts before them allow {possible:.0f} at most",
        _not_ranked("A server's cache has more than was sent", "Clear its cache; let nobody else ask; repeat the run"),
    ),
    "retried": Kind(
        "{requests:number of request} had to be sent twice: the server closed a kept connection before an answer",
        _NO_STEADY_STATE,
    ),
    "stall": Kind(
        "no token came for {longest_s:.1f} s, in all for {stalled_s:.1f} s, though requests were in flight",
        _NO_STEADY_STATE,
    ),
    "unseen_first": Kind(
        "{requests:number of request} began with tokens that have no text: TTFT is to the first text or listed token",
        Advice(6, "A server's first tokens are unseen.", "Let the server list token ids, or check what it sends first"),
    ),
    "p99_unbounded": Kind(
        "{requests} requests do not bound the 99th percentiles from above",
        Advice(5, "Requests are too few for an interval of the 99th percentiles.", "Measure a longer window"),
    ),
    "few_in_flight": Kind("the client was late: {in_flight:.2f} requests were in flight, {wanted} wanted", _LATE),
    "client_share": Kind(
        "the client was late by up to {longest_ms:.1f} ms, which may change {percentile} by {share:.0%}", _LATE
    ),
    "late_start": Kind(
        "the client started its streams {late_s:.3f} s late in the mean, of {request_s:.3f} s for a request", _LATE
    ),
    "miscounted": Kind(
        "the client counted {client} tokens in the window, and the server {server:.0f}",
        Advice(4, "Client and server count different tokens.", "Use the server for this job alone, and repeat the run"),
    ),
    "answers_wrong": Kind(
        "{wrong} of {questions} answers under load have a token that rounding does not explain: none of the idle "
        "server's {listed} most likely ones, or less likely by more than {most:g} in the logarithm",
        _WRONG,
    ),
    "answers_vary": Kind(
        "{wrong} of {questions} answers differ in repeats of the idle server by a token that rounding does not explain",
        _not_ranked("An idle server answers one question differently", "Let it obey temperature 0; repeat the run"),
    ),
    "answers_unlikely": Kind(
        "a token of an answer is {likelihood:.1%} as likely under load as on the idle server, {least:.0%} to "
        "{most:.0%} wanted",
        _WRONG,
    ),
    "answers_unlike": Kind(
        "{agreement:.0%} of the tokens of answers under load are equal up to the first difference, and "
        "{repeat_agreement:.0%} in repeats of the idle server; at least {least:g} of that is wanted",
        _WRONG,
    ),
    "answers_below": Kind(
        "{right} of {expected} questions are answered as expected, at least {least:.1%} wanted",
        _not_ranked("A server's answers are not those expected", "Check its weights and quantisation; repeat the run"),
    ),
    "load_wrong": Kind(
        "{wrong} of {questions} answers of the load differ from answers to the same requests asked again, by more than "
        "rounding explains",
        _WRONG,
    ),
    "prompt_unread": Kind(
        "{unread} of {parts} changes of a quarter of a prompt change no probability of the answer",
        _not_ranked("A server does not read whole prompts", "Check its limits of a prompt's length; repeat the run"),
    ),
    "no_logprobs": Kind(
        "the server gives no log-probabilities that can be: only gross errors of its answers under load are found",
        _UNCHECKED,
    ),
    "answers_unknown": Kind("its options ask for a check of answers, and it has none", _UNCHECKED),
    "answers_empty": Kind("{empty:number of answer} to questions have no token", _UNCHECKED),
    "perplexity_differs": Kind(
        "the perplexity of the text is {perplexity:.4g}, that of the reference {reference:.4g}: a token is "
        "{likelihood:.1%} as likely, {least:.0%} to {most:.0%} wanted",
        _not_ranked("A server's weights are not the reference's", "Check weights, quantisation, reference"),
    ),
    "perplexity_unjudged": Kind(
        "the perplexity of the text is {perplexity:.4g}, and no reference is known",
        Advice(7, "A perplexity has no reference.", "Measure the unquantised model; give it as --perplexity-reference"),
    ),
    "perplexity_unknown": Kind(
        "the perplexity of the text is unknown: the run's output has the reason (--no-perplexity asks for none)",
        _UNCHECKED,
    ),
    "acceptance_differs": Kind(
        "a step has {measured:.3g} tokens by the server's counters, and {stated:g} were stated, which may be off by "
        "{most:.2g}",
        _SPECULATION,
    ),
    "events_differ": Kind("events have {mean:.3g} tokens, and a step {measured:.3g} by the server's counters", _STEPS),
    "steps_differ": Kind(
        "{later} tokens arrived after the first ones, and the server's counters of steps make {counted:.0f}", _STEPS
    ),
    "speculation_undeclared": Kind(
        "the server took {steps:.0f} steps with draft tokens, and no speculation was declared", _SPECULATION
    ),
    "events_of_several": Kind(
        "events have {mean:.3g} tokens in the mean: the server speculates, or sends several together",
        Advice(6, "A server sends several tokens in an event.", "State --draft-tokens, or let it send each alone"),
    ),
    "acceptance_unknown": Kind(
        "the server does not count accepted tokens: that a step has {stated:g} is stated and not measured", _SPECULATION
    ),
    "answers_synthetic": Kind(
        "draft tokens are accepted by chance, so that answers are wrong by design: they are not compared",
        Advice(7, "A server with a stated acceptance answers by chance.", "Check answers without speculation"),
    ),
    # why a file does not count
    "unusable": Kind("{reason}", LEFT_OUT),
    "fewer_than_planned": Kind("{run} has results of {found} of {planned} planned runs", LEFT_OUT),
    "closed": Kind("{path} cannot be entered ({reason}): runs in it are missing, let its owner open it", LEFT_OUT),
    "inconsistent": Kind("{path} is inconsistent and left out: {reasons}", LEFT_OUT),
    "marked": Kind("{path} is left out: version {version} found it wrong on {date}: {reason}", LEFT_OUT),
    "same_record": Kind("{first} and {second} are the same record: it counts once", LEFT_OUT),
    "run_left_out": Kind("{second} is left out: its run is that of {first}, which is left out", LEFT_OUT),
    "same_device": Kind(
        "{first} and {second} were measured on one device at the same time: both are left out", LEFT_OUT
    ),
    # why a requirement has no answer, by what remedies it
    "no_run": Kind("{why}", _AT_POINT),
    "runs_left_out": Kind("no run that counts: {reasons}", _AT_POINT),
    "smaller": Kind("it is of a smaller workload, which is not comparable", _AT_POINT),
    "repeats_needed": Kind("{why}", _REPEAT),
    "within_interval": Kind("the limit is within the interval, {low:digits} to {high:digits}{of}", _REPEAT),
    "no_energy": Kind("{why}", _undecided(METER)),
    "energy_left_out": Kind("no energy that counts: {reasons}", _undecided(METER)),
    "is_estimate": Kind("it is an estimate from load, and no measurement", _undecided(METER)),
    "not_without_accuracy": Kind(
        "it passes only without the accuracy of the sensor; with it, {low:digits} to {high:digits}", _undecided(METER)
    ),
    "more_devices": Kind("runs on {devices:number of device} alone", _undecided("Run this workload on more devices")),
    "other_setups": Kind("{why}", _undecided("Run this workload in one setup that keeps all of its figures")),
    "unclear": Kind("{why}", _undecided("Correct the requirements", False)),
    "part_filled": Kind(
        "the copies filled {filled} of {devices:number of device}: a projection does not count",
        _undecided("Run copies on the whole machine at once, with the tag 'fill'"),
    ),
    "no_load_within_limits": Kind(
        "no load keeps the limits of TTFT and TPOT", _undecided("Measure smaller loads of this server")
    ),
    "not_to_loss": Kind("no run was trained to a loss", _undecided("Run this workload with the tag 'to-loss'")),
    "one_run": Kind("one run gives no interval", _undecided("Run this point three times")),
    "runs_missing": Kind(
        "runs are missing ({reasons:number of reason})", _undecided("Ask for the missing runs, or repeat them", False)
    ),
}

# A run with one of these is not ranked: it is wrong, a check that was asked for was not made, or it is of no whole and
# sound device. A few per cent of throttling are no reason: see results.points.judged.
NOT_RANKED = {kind for kind, known in KINDS.items() if not known.advice.is_ranked} | {"shared", "throttled"}
