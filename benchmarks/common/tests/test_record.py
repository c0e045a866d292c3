from __future__ import annotations

import json
import math

from benchmarks.common.record import RunRecord


def test_a_record_has_failed_until_it_is_known_to_be_good():
    assert RunRecord("b", "s", "m", "tokens", {}).status == "failed"


def test_a_number_that_is_not_finite_is_null_and_never_zero():
    record = RunRecord("b", "s", "m", "tokens", {}, losses=[1.0, math.nan], metrics={"mfu": math.inf})
    plain = json.loads(json.dumps(record.to_dict(), allow_nan=False))
    assert plain["losses"] == [1.0, None]
    assert plain["metrics"] == {"mfu": None}


def test_the_hash_of_a_configuration_leaves_the_runs_name_out():
    def record(batch, name):
        return RunRecord("b", "s", "m", "tokens", {"batch": {"size": batch}, "run": {"record": name}})

    assert record(8, "a").config_hash == record(8, "b").config_hash
    assert record(8, "a").config_hash != record(16, "a").config_hash
