"""Log runs to MLflow or Weights & Biases by their libraries: each once, with its energy, regions and files."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from results.join.nodes import TRACES
from results.points.repeats import point_of
from results.points.setups import flat
from results.record.model import Part, is_number
from results.record.records import Record, RecordError

RUN_TAG = "caraml.run_id"
LONGEST_VALUE = 500  # characters of a parameter in MLflow
BATCH = 100  # parameters or metrics in one message to MLflow
NOT_IN_NAMES = re.compile(r"[^\w\-. /]")
RUN_FILES = ("record.trace.json", TRACES, "io/*/*", "record.profile/**/*")
# The defaults try for minutes; settings of the user have priority.
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}
WANDB_TIMEOUT_S = 60
MODES = ("offline", "online")
LOGGED = "logged.{mode}"  # in a run's folder as soon as it is complete


class LoggedRun(NamedTuple):
    """One run in the terms of experiment trackers."""

    run_id: str
    name: str
    group: str  # the benchmark
    is_good: bool
    parameters: dict[str, str]
    metrics: dict[str, float]
    step_times_s: list[float]
    files: dict[str, Path]  # by name within the run


def logged_run(record: Record) -> LoggedRun:
    """Return a run with its options as parameters and its numbers as metrics."""
    parts = ("system", "model", "precision", "data", "sample", "status", "error")
    parameters = {key: str(value) for key in parts if (value := vars(record).get(key))}
    parameters |= dict(flat({"config": record.config, "layout": vars(record.layout)}))
    parameters |= {f"choice.{title}": str(value) for title, value in record.choices.items()}
    metrics = {
        _name(f"{group}.{key}" if group != "metrics" else key): float(value)
        for group in ("metrics", "energy", "energy_effective")
        for key, value in vars(getattr(record, group) or Part()).items()
        if is_number(value)
    }
    for window, steps in record.regions.items():
        for region, values in steps.regions.items():
            metrics |= {
                _name(f"regions.{window}.{region}.{key}"): float(value)
                for key, value in vars(values).items()
                if is_number(value)
            }
    path = Path(record.file.path)
    others = sorted(file for pattern in RUN_FILES for file in path.parent.glob(pattern) if file.is_file())
    return LoggedRun(
        record.run_id or "",
        f"{record.system}, {point_of(record)}",
        record.benchmark,
        record.is_good,
        {_name(key): value[:LONGEST_VALUE] for key, value in parameters.items()},
        metrics,
        [float(time_s) for time_s in record.step_times_s or [] if time_s is not None],
        {str(file.relative_to(path.parent)): file for file in (path, *others)},
    )


def _name(text: str) -> str:
    """Return a name with the characters that MLflow allows."""
    return NOT_IN_NAMES.sub("_", text)


def log_to_mlflow(records: Sequence[Record], uri: str) -> list[str]:
    """Log runs and return the names of the new ones; raises RecordError without MLflow, or if it does not answer."""
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise RecordError("--mlflow needs MLflow, which is not installed: pip install '.[tracking]'") from error
    try:
        client = MlflowClient(tracking_uri=uri)
        return [one.name for one in map(logged_run, records) if _into_mlflow(client, one)]
    except (MlflowException, OSError) as error:
        raise RecordError(f"--mlflow {uri} cannot be written to: {_first_line(error)}") from error
    except ImportError as error:
        raise RecordError(f"--mlflow {uri} needs the Python module {error.name}, which is not installed") from error


def _into_mlflow(client: Any, one: LoggedRun) -> bool:
    from mlflow.entities import Metric, Param

    known = client.get_experiment_by_name(one.group)
    experiment = known.experiment_id if known else client.create_experiment(one.group)
    if client.search_runs([experiment], f"tags.`{RUN_TAG}` = '{one.run_id}'"):
        return False
    run = client.create_run(experiment, run_name=one.name).info.run_id
    now_ms = int(1000 * time.time())
    metrics = [Metric(key, value, now_ms, 0) for key, value in one.metrics.items()]
    metrics += [Metric("step_time_s", time_s, now_ms, step) for step, time_s in enumerate(one.step_times_s)]
    for batch in _batches(Param(key, value) for key, value in one.parameters.items()):
        client.log_batch(run, params=batch)
    for batch in _batches(metrics):
        client.log_batch(run, metrics=batch)
    for name, path in one.files.items():
        client.log_artifact(run, str(path), name.rpartition("/")[0] or None)
    client.set_tag(run, RUN_TAG, one.run_id)  # last, so that an interrupted run is logged again
    client.set_terminated(run, "FINISHED" if one.is_good else "FAILED")
    return True


def _batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def log_to_wandb(records: Sequence[Record], mode: str, project: str) -> list[str]:
    """Log the runs that were not yet logged from this folder in this mode, and return their names.

    Raises RecordError without wandb, or if it does not accept the runs.
    """
    try:
        import wandb
    except ImportError as error:
        raise RecordError("--wandb needs wandb, which is not installed: pip install '.[tracking]'") from error
    try:
        return [one.name for one in map(logged_run, records) if _into_wandb(wandb, one, mode, project)]
    except (wandb.errors.Error, OSError) as error:
        raise RecordError(f"--wandb {mode}: Weights & Biases did not accept the runs: {_first_line(error)}") from error


def _into_wandb(wandb: Any, one: LoggedRun, mode: str, project: str) -> bool:
    if list(Path("wandb").glob(f"*run-*-{one.run_id}/{LOGGED.format(mode=mode)}")):
        return False
    run = wandb.init(
        project=project,
        group=one.group,
        name=one.name,
        id=one.run_id,
        mode=mode,
        config=one.parameters,
        settings=wandb.Settings(silent=True, console="off", disable_git=True, init_timeout=WANDB_TIMEOUT_S),
    )
    for step, time_s in enumerate(one.step_times_s):
        run.log({"step_time_s": time_s}, step=step)
    run.summary.update(one.metrics)
    files = wandb.Artifact(f"run-{one.run_id}", type="run")
    for name, path in one.files.items():
        files.add_file(str(path), name)
    run.log_artifact(files)
    folder = Path(run.dir).parent
    run.finish(exit_code=0 if one.is_good else 1)
    (folder / LOGGED.format(mode=mode)).touch()  # last, so that an interrupted run is logged again
    return True


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
