"""megatron-core's process groups and the distributed model, with the same calls on CPUs and GPUs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_config import TransformerConfig

from benchmarks.llm_training.config import Layout
from benchmarks.llm_training.gpt import cpu_stand_ins
from benchmarks.on_pytorch.target import Target, process_group


@contextmanager
def parallel_groups(target: Target, layout: Layout, seed: int, cuda_graph: bool = False) -> Iterator[None]:
    """Set up megatron-core's process groups until the end of the block, with graph-safe random states for a graph."""
    if not target.on_gpu:
        cpu_stand_ins.install()
    with process_group(target):
        parallel_state.initialize_model_parallel(
            layout.tensor_parallel_size,
            layout.pipeline_parallel_size,
            context_parallel_size=layout.context_parallel_size,
            expert_model_parallel_size=layout.expert_parallel_size,
            expert_tensor_parallel_size=1,
            create_gloo_process_groups=False,
        )
        torch.manual_seed(seed)
        model_parallel_cuda_manual_seed(seed, use_cudagraphable_rng=cuda_graph)
        try:
            yield
        finally:
            parallel_state.destroy_model_parallel()


def distribute(
    model: GPTModel, config: TransformerConfig, target: Target, overlap: bool, gather_late: bool, cuda_graph: bool
) -> DistributedDataParallel:
    """Return the model under megatron-core's data parallelism; gradients are summed in float32.

    On GPUs each replica stores its share of the optimizer's state. With `overlap` gradients are summed as soon as they
    are ready and, on GPUs with `gather_late`, weights are gathered layer by layer as the next forward pass needs them.
    """
    ddp_config = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True,
        overlap_grad_reduce=overlap,
        use_distributed_optimizer=target.on_gpu,
        overlap_param_gather=overlap and gather_late and target.on_gpu,
    )
    with _own_stream() if cuda_graph else nullcontext():
        distributed = DistributedDataParallel(config, ddp_config, model)
    config.finalize_model_grads_func = finalize_model_grads
    config.no_sync_func = distributed.no_sync if overlap else None
    return distributed


@contextmanager
def _own_stream() -> Iterator[None]:
    """Use a stream other than the default one, which a graph cannot capture, for the nodes that accumulate gradients.

    Ignores PyTorch's warnings about two streams, and about megatron-core's barrier before the capture.
    """
    for words in ("The AccumulateGrad node's stream does not match", r"barrier\(\): using the device"):
        warnings.filterwarnings("ignore", words)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


def average_losses(losses: list[torch.Tensor], device: torch.device) -> list[float]:
    """Return the mean loss of each step over all replicas, on every rank; only the last pipeline stage has losses."""
    steps = len(losses)
    mean = torch.stack(losses).float() if losses else torch.zeros(0, device=device)
    count = torch.tensor([steps], device=device)
    torch.distributed.all_reduce(count, torch.distributed.ReduceOp.MAX)
    if not steps:
        mean = torch.zeros(int(count), device=device)
    else:
        replicas = parallel_state.get_data_parallel_group(with_context_parallel=True)
        torch.distributed.all_reduce(mean, group=replicas)
        mean /= replicas.size()
    if parallel_state.get_pipeline_model_parallel_world_size() > 1:
        torch.distributed.broadcast(
            mean,
            parallel_state.get_pipeline_model_parallel_last_rank(),
            group=parallel_state.get_pipeline_model_parallel_group(),
        )
    return [float(loss) for loss in mean]
