"""Log runs to MLflow, Weights & Biases and TensorBoard by their libraries, each run once."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

from record.part import Part, is_number
from results.find.records import Record, RecordError
from results.join.nodes import TRACES
from results.points.facts import flat, point_of

RUN_TAG = "caraml.run_id"
ABOUT = ("system", "model", "precision", "data", "sample", "status", "error")
LONGEST_VALUE, BATCH = 500, 100  # of MLflow: characters of a parameter, and parameters in one message
NOT_IN_NAMES = re.compile(r"[^\w\-. /]")  # of MLflow
RUN_FILES = ("record.trace.json", TRACES, "io/*/*", "record.profile/**/*")
NOT_IN_FOLDERS = re.compile(r"[^\w\-.]+")
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}  # not for minutes
MODES, CURVES = ("offline", "online"), ("step_time_s", "loss")
LOGGED = "logged"  # file in a run's folder of W&B or TensorBoard as soon as it is complete


def _name(record: Record) -> str:
    return f"{record.system}, {point_of(record)}"


def parameters_of(record: Record) -> dict[str, str]:
    """Return the facts and the options of a run, by names that MLflow allows."""
    parameters = {key: str(value) for key in ABOUT if (value := vars(record).get(key))}
    parameters |= dict(flat({"config": record.config, "layout": vars(record.layout)}))
    return {NOT_IN_NAMES.sub("_", key): value[:LONGEST_VALUE] for key, value in parameters.items()}


def metrics_of(record: Record) -> dict[str, float]:
    """Return the numbers of a run, by names that MLflow allows."""
    groups: dict[str, Part | None] = {"": record.metrics}
    groups |= {"energy.": record.energy, "energy_effective.": record.energy_effective}
    for window, marked in record.regions.items():
        groups |= {f"regions.{window}.{region}.": values for region, values in marked.regions.items()}
    numbers = {f"{group}{key}": one for group, part in groups.items() for key, one in vars(part or Part()).items()}
    return {NOT_IN_NAMES.sub("_", key): float(value) for key, value in numbers.items() if is_number(value)}


def steps_of(record: Record) -> list[dict[str, float]]:
    """Return time and loss of each step."""
    steps = zip_longest(record.step_times_s or [], record.losses)
    return [{name: float(one) for name, one in zip(CURVES, step, strict=True) if one is not None} for step in steps]


def files_of(record: Record) -> dict[str, Path]:
    """Return the record with all files next to it, by name within the run."""
    path = Path(record.file.path)
    files = [path, *sorted(one for pattern in RUN_FILES for one in path.parent.glob(pattern) if one.is_file())]
    return {str(file.relative_to(path.parent)): file for file in files}


def log_to_mlflow(records: Sequence[Record], uri: str) -> int:
    """Log runs and return how many are new; raises RecordError without MLflow, or if it does not answer."""
    os.environ.update(PATIENCE | os.environ)
    mlflow = _library("mlflow", "--mlflow", "tracking")
    try:
        client = mlflow.MlflowClient(tracking_uri=uri)
        return sum(_into_mlflow(client, record) for record in records)
    except (mlflow.exceptions.MlflowException, OSError, ImportError) as error:  # without a database's module
        raise RecordError(f"--mlflow {uri} cannot be written to: {_first_line(error)}") from error


def _into_mlflow(client: Any, record: Record) -> bool:
    from mlflow.entities import Metric, Param

    known = client.get_experiment_by_name(record.benchmark)
    experiment = known.experiment_id if known else client.create_experiment(record.benchmark)
    if client.search_runs([experiment], f"tags.`{RUN_TAG}` = '{record.run_id}'"):
        return False
    run = client.create_run(experiment, run_name=_name(record)).info.run_id
    now_ms, steps = int(1000 * time.time()), [(0, metrics_of(record)), *enumerate(steps_of(record))]
    parameters = [Param(key, value) for key, value in parameters_of(record).items()]
    metrics = [Metric(name, value, now_ms, at) for at, step in steps for name, value in step.items()]
    for begin in range(0, max(len(parameters), len(metrics)), BATCH):
        part = slice(begin, begin + BATCH)
        client.log_batch(run, params=parameters[part], metrics=metrics[part])
    for name, path in files_of(record).items():
        client.log_artifact(run, str(path), name.rpartition("/")[0] or None)
    client.set_tag(run, RUN_TAG, record.run_id)  # last, so that an interrupted run is logged again
    client.set_terminated(run, "FINISHED" if record.is_good else "FAILED")
    return True


def log_to_wandb(records: Sequence[Record], mode: str, project: str) -> int:
    """Log the runs that were not yet logged from this folder in this mode, as log_to_mlflow() does."""
    wandb = _library("wandb", "--wandb", "tracking")
    settings = wandb.Settings(silent=True, console="off", disable_git=True, init_timeout=60)
    new = [one for one in records if not [*Path("wandb").glob(f"*-{one.run_id}/{LOGGED}.{mode}")]]
    try:
        for record in new:
            about = {"group": record.benchmark, "name": _name(record), "id": record.run_id, "mode": mode}
            run = wandb.init(project=project, settings=settings, config=parameters_of(record), **about)
            for at, step in enumerate(steps_of(record)):
                run.log(step, step=at)
            run.summary.update(metrics_of(record))
            files = wandb.Artifact(re.sub(r"[^\w.-]", "-", f"run-{record.run_id}"), type="run")
            for name, path in files_of(record).items():
                files.add_file(str(path), name)
            run.log_artifact(files)
            run.finish(exit_code=int(not record.is_good))
            Path(run.dir).with_name(f"{LOGGED}.{mode}").touch()  # last, so that an interrupted run is logged again
    except (wandb.errors.Error, OSError) as error:
        raise RecordError(f"--wandb {mode}: Weights & Biases did not accept the runs: {_first_line(error)}") from error
    return len(new)


def log_to_tensorboard(records: Sequence[Record], folder: Path) -> int:
    """Log runs as log_to_mlflow() does."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow only writes here
    tf = _library("tensorflow", "--tensorboard", "resnet")
    runs = {folder / f"{NOT_IN_FOLDERS.sub('-', _name(one))}-{one.run_id[:8]}": one for one in records}
    new = {place: record for place, record in runs.items() if not (place / LOGGED).exists()}
    try:
        for place, record in new.items():
            with tf.summary.create_file_writer(str(place)).as_default(), tf.device("CPU:0"):
                for at, step in [*enumerate(steps_of(record)), (0, metrics_of(record))]:
                    for name, value in step.items():
                        tf.summary.scalar(name, value, at)
                parameters = parameters_of(record).items()
                tf.summary.text("run", "\n".join(f"    {key}: {text}" for key, text in parameters), 0)
            (place / LOGGED).touch()
    except (OSError, tf.errors.OpError) as error:
        raise RecordError(f"--tensorboard {folder} cannot be written to: {error}") from error
    return len(new)


def _library(name: str, option: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise RecordError(f"{option} needs {name}, which is not installed: pip install '.[{extra}]'") from error


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
