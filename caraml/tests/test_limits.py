"""Operating points of a sweep: their values, who sets them, and what a site does not offer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from caraml.errors import SiteError
from caraml.plan.limits import planned_limits
from caraml.plan.site import Site
from caraml.plan.systems import read_system

BY_JPWR = Site(limits_set_by="jpwr")
BY_SLURM = Site(submit="sbatch", limits_set_by="slurm", slurm_power_flag="--gpu-power={}")


@pytest.fixture(scope="module")
def block():
    return replace(read_system("H200"), limit_shares="100 85 70 55")


def test_values_are_shares_that_the_device_resolves(block):
    found = planned_limits({"caps", "clocks", "once"}, block, BY_JPWR)
    assert found["power_limits"] == found["clocks"] == "100%,85%,70%,55%"
    assert found["limit_flags"]["caps 85%"] == "--power-limit 85%"
    assert found["limit_flags"]["clocks 55%"] == "--clock 55%"
    assert found["slurm_limits"] == {}


@pytest.mark.parametrize("tags", [{"once"}, {"observe"}])
def test_without_the_tags_nothing_is_set(block, tags):
    found = planned_limits(tags, block, Site())
    assert not any(found.values())


def test_slurm_gets_amounts_by_its_flags_and_jpwr_only_compares(block):
    found = planned_limits({"caps", "clocks"}, block, BY_SLURM)
    assert found["power_limits"] == "700,595,490,385"
    assert found["clocks"] == "1980,1683,1386,1089"
    assert found["slurm_limits"]["caps 490"] == "--gpu-power=490"
    assert found["slurm_limits"]["clocks 1386"] == "--gpu-freq=1386"
    assert found["limit_flags"]["caps 490"] == "--power-limit 490 --limits-set-by scheduler"


@pytest.mark.parametrize(("text", "values"), [("700, 600W 70%", "700,600,70%"), ("100% 100%", "100%")])
def test_a_site_or_a_user_may_name_the_values(block, text, values):
    assert planned_limits({"caps"}, block, Site(limits_set_by="jpwr", power_limits=text))["power_limits"] == values


@pytest.mark.parametrize(
    ("tags", "site", "block_changes", "words"),
    [
        ({"caps"}, Site(), {}, "the tag caps sets limits, but limits_set_by is none"),
        ({"caps"}, BY_JPWR, {"power_methods": "rapl", "accelerator": "a CPU"}, "on a CPU, which has no limits"),
        ({"caps"}, replace(BY_SLURM, submit="bash"), {}, "limits_set_by is slurm, but jobs are started by bash"),
        ({"caps"}, replace(BY_SLURM, slurm_power_flag=""), {}, "the tag caps needs slurm_power_flag in site.yaml"),
        ({"clocks"}, BY_SLURM, {"highest_clock_mhz": 0}, "the clock 100% is a share, but the system's block has no"),
        ({"caps"}, Site(limits_set_by="jpwr", power_limits="700 high"), {}, "power_limits: must be a number of W"),
    ],
)
def test_what_cannot_be_set_is_one_clear_sentence(block, tags, site, block_changes, words):
    with pytest.raises(SiteError, match=words):
        planned_limits(tags, replace(block, **block_changes), site)
