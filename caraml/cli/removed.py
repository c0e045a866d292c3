"""Commands and options that this release removed, and what to use instead; the next release empties the table."""

from __future__ import annotations

FOLDERS = "give all folders and archives of results to 'caraml history FOLDER ...'"
TABLE = "use 'caraml table FOLDER --format csv', or parquet with '-o FILE'"
PROVISIONED = "state 'provisioned_w_per_device' in the prices or in the system's block"
REMOVED = {
    "caraml export": TABLE,
    "caraml read-bench": "measure the server by jube/inference.yaml, as docs/howto/measure_a_server.md describes",
    "caraml history add": FOLDERS,
    "caraml history import": FOLDERS,
    "caraml history check": f"{FOLDERS}, which exits with 1 if a point got worse, and with 3 if it cannot be decided",
    "caraml history report": f"{FOLDERS}, with '-o FILE.png' for the plot",
    "caraml history run": "use 'jube run', then 'caraml wait' and 'caraml history FOLDER ...'",
    "caraml history show": FOLDERS,
    "caraml history export": TABLE,
    "caraml history --db": FOLDERS,
    "caraml history --since": "use '--baseline DATE'",
    "caraml history --known": "use '--baseline DATE', from the day of the acknowledged change on",
    "caraml report --published": "use 'caraml published --results FOLDER'",
    "caraml report --details": "the page always has each point and plot",
    "caraml published --plot": "use 'caraml published --results FOLDER', a table of figures next to your own",
    "caraml compare --require": "write requirements, and use 'caraml accept FOLDER --requirements FILE'",
    "caraml operating-points": "use 'caraml table FOLDER --repeats', and the report's chart of limits and clocks",
    "caraml system-power": PROVISIONED,
    "caraml table --system-power": PROVISIONED,
    "caraml table --goodput": "use the measured times and energies of checkpoints, by the tag checkpoint",
    "caraml report --system-power": PROVISIONED,
    "caraml predict --validate": "docs/explanation/prediction.md has the errors",
    "caraml predict --points": "only measured and published systems of the suite are left out to know the error",
    "caraml predict --size": "use --filter 'model=NAME' to choose among the models of the runs, or measure the model",
    "caraml predict --precision": "use --filter 'precision=NAME' to choose among those of the runs",
}
