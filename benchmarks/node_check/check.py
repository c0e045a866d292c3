"""One check: products of matrices for the measured window, then every figure of devices and links."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.common import session
from benchmarks.common.launch import Launch
from benchmarks.common.record import RunRecord
from benchmarks.common.workload import Feed, Flops, Training
from benchmarks.node_check.config import Config
from benchmarks.on_pytorch.workload import OnPyTorch
from jpwr.regions.times import COMM, FORWARD

if TYPE_CHECKING:
    from benchmarks.on_pytorch.target import Target


class NodeCheck(OnPyTorch):
    """One check of all devices of a job, which wait for the slowest of them after each step of the window."""

    name = "node_check"
    unit = "product"
    description = "Measure the rates of devices and of the links between them with PyTorch."
    packages = ("torch",)
    options = Config

    def __init__(self, options: Config, launch: Launch) -> None:
        self.config, self.launch = options, launch
        size = options.model.size
        self.layout = {"num_devices": launch.world_size, "num_nodes": launch.num_nodes, "global_batch_size": 1}
        self.work_per_sample = options.model.products_per_step * launch.world_size
        self.data, self.sample, self.num_parameters = "random matrices", f"{size} x {size} x {size}", 0
        self.flops = Flops(2.0 * size**3, "2 n^3, of a product of two matrices of n rows and columns")

    @staticmethod
    def model(options: Config) -> str:
        """Return the size of the matrices."""
        return f"matrices of {options.model.size}"

    def build(self, target: Any) -> Products:
        """Return the matrices of this rank."""
        return Products(self, target)


class Products(Training):
    """Products of square matrices in the run's precision, in place of training steps."""

    def __init__(self, run: NodeCheck, target: Target) -> None:
        import torch

        from benchmarks.node_check.figures import product

        self._run, self._target, self.data = run, target, Feed(self._call)
        size = run.config.model.size
        self._multiply = product(target.precision, (size, size, size), target.device)
        self._slowest = torch.zeros(1, device=target.device)
        self.synchronize = target.synchronize

    def _call(self) -> None:
        """Make the products of one step, and wait for all ranks."""
        import torch.distributed as dist

        regions = self._run.regions
        with regions.region(FORWARD):
            for _ in range(self._run.config.model.products_per_step):
                self._multiply()
        with regions.region(COMM):
            dist.all_reduce(self._slowest)

    def conclude(self, record: RunRecord) -> str:
        """Measure all figures, and add them to the record."""
        from benchmarks.node_check.figures import Bench, device_facts, measure_device
        from benchmarks.node_check.messages import measure_messages

        bench = Bench(self._target, self._run.config.model)
        facts = device_facts(self._target)
        measure_device(bench)
        measure_messages(bench)
        figures = [one for rank in self._target.gather(bench.figures) for one in rank]
        record.node_check = {"figures": figures, "devices": self._target.gather(facts())}
        return ""


main = partial(session.main, NodeCheck)
