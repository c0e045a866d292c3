"""AdamW under megatron-core's data parallelism."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.dist_checkpointing.optimizer import (
    get_param_id_to_sharded_param_map,
    make_sharded_optimizer_tensor,
)
from megatron.core.distributed import DistributedDataParallel
from megatron.core.optimizer import OptimizerConfig, clip_grads, get_megatron_optimizer
from megatron.core.tensor_parallel.layers import param_is_not_tensor_parallel_duplicate
from megatron.core.transformer.module import param_is_not_shared
from megatron.core.utils import local_multi_tensor_l2_norm

from benchmarks.llm_training.config import ADAM_BETAS, ADAM_EPS, TrainingOptions
from benchmarks.on_pytorch.state import state_tensors
from benchmarks.on_pytorch.target import Target

INITIAL_LOSS_SCALE = 2.0**16  # in fp16; halved if a gradient overflows


class MegatronOptimizer:
    """megatron-core's distributed optimizer; `description` is the library and class of its AdamW."""

    def __init__(
        self, model: DistributedDataParallel, options: TrainingOptions, target: Target, timers: Callable[..., Any]
    ) -> None:
        if clip_grads.l2_norm_impl is local_multi_tensor_l2_norm:
            clip_grads.l2_norm_impl, clip_grads.multi_tensor_scale_impl = norm_of_all, scale_all
        self._optimizer = get_megatron_optimizer(
            OptimizerConfig(
                optimizer="adam",
                lr=options.learning_rate,
                min_lr=options.learning_rate,
                weight_decay=options.weight_decay,
                adam_beta1=ADAM_BETAS[0],
                adam_beta2=ADAM_BETAS[1],
                adam_eps=ADAM_EPS,
                clip_grad=options.gradient_clip,
                bf16=target.dtype is torch.bfloat16,
                fp16=target.precision == "fp16",
                initial_loss_scale=INITIAL_LOSS_SCALE,
                params_dtype=target.dtype,
                use_distributed_optimizer=True,
                overlap_param_gather=model.ddp_config.overlap_param_gather,
                timers=timers,
            ),
            [model],
            use_gloo_process_groups=False,
        )
        inner = [chained.optimizer for chained in self._optimizer.chained_optimizers]
        for adam in inner:
            if isinstance(adam, torch.optim.AdamW):  # without TransformerEngine and apex
                for group in adam.param_groups:
                    group["fused"] = True
        self.description = " ".join(
            {f"{type(adam).__module__.partition('.')[0]} {type(adam).__name__}" for adam in inner}
        )

    def zero_grad(self) -> None:
        """Reset the gradients."""
        self._optimizer.zero_grad()

    @property
    def scale_loss(self) -> Callable[[torch.Tensor], torch.Tensor]:
        """Function that scales the loss before the backward pass."""
        scale: Callable[[torch.Tensor], torch.Tensor] = self._optimizer.scale_loss
        return scale

    def step(self, learning_rate: float) -> bool:
        """Update the weights; return False if the step was skipped, as a gradient in fp16 was not finite."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        done, _, _ = self._optimizer.step()
        return bool(done)

    def sharded_state_dict(self, model: Any, is_loading: bool, metadata: dict[str, Any]) -> Any:
        """Return the state for megatron-core's checkpoints, by the parameters of the model's."""
        return self._optimizer.sharded_state_dict(model, is_loading, metadata=metadata)

    def load_state_dict(self, state: Any) -> None:
        """Take a state that was read."""
        self._optimizer.load_state_dict(state)

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield the tensors of this rank's share of the state, in which the weights are wider than the model's."""
        for chained in self._optimizer.chained_optimizers:
            yield from (weight for group in chained.optimizer.param_groups for weight in group["params"])
            yield from state_tensors(chained.optimizer)


def norm_of_all(
    chunk_size: int, overflow: torch.Tensor, tensor_lists: list[list[torch.Tensor]], per_tensor: bool
) -> tuple[torch.Tensor, None]:
    """Return the norm over all tensors; without apex, megatron-core's own function waits for each tensor."""
    return torch.stack(torch._foreach_norm(tensor_lists[0])).norm().reshape(1), None


def scale_all(chunk_size: int, overflow: torch.Tensor, tensor_lists: list[list[torch.Tensor]], scale: float) -> None:
    """Write the sources times `scale` to the targets, in few kernels."""
    sources, targets = tensor_lists
    if sources is not targets:
        torch._foreach_copy_(targets, sources)
    torch._foreach_mul_(targets, scale)


class CpuOptimizer:
    """PyTorch's fused AdamW: megatron-core's optimizers refuse parameters on a CPU.

    The rules are the same: narrower weights have a float32 copy, only matrices decay, and the norm is that of the whole
    model.
    """

    def __init__(self, model: DistributedDataParallel, options: TrainingOptions) -> None:
        self._clip = options.gradient_clip
        self._weights = [weight for weight in model.parameters() if weight.requires_grad]
        self._masters = [
            weight if weight.dtype is torch.float32 else weight.detach().float() for weight in self._weights
        ]
        groups = [
            {"params": [m for m in self._masters if m.dim() > 1], "weight_decay": options.weight_decay},
            {"params": [m for m in self._masters if m.dim() == 1], "weight_decay": 0.0},
        ]
        self._adam = torch.optim.AdamW(groups, lr=options.learning_rate, betas=ADAM_BETAS, eps=ADAM_EPS, fused=True)

    description = "torch AdamW"
    scale_loss = None

    def zero_grad(self) -> None:
        """Do nothing: the gradients are in the model's own buffer."""

    @torch.no_grad()
    def step(self, learning_rate: float) -> bool:
        """Update the weights; return True."""
        for weight, master in zip(self._weights, self._masters, strict=True):
            master.grad = _gradient(weight)
        norm = _global_norm(self._weights)
        torch.nn.utils.clip_grads_with_norm_(self._masters, self._clip, norm)
        for group in self._adam.param_groups:
            group["lr"] = learning_rate
        self._adam.step()
        for weight, master in zip(self._weights, self._masters, strict=True):
            master.grad = None
            if weight is not master:
                weight.copy_(master)
        return True

    def sharded_state_dict(self, model: Any, is_loading: bool, metadata: dict[str, Any]) -> Any:
        """Return the state for megatron-core's checkpoints, by the parameters of the model's."""
        params = get_param_id_to_sharded_param_map(model, self._weights)
        weights = {
            number: {
                name: make_sharded_optimizer_tensor(params[number], tensor, f"optimizer.{name}")
                for name, tensor in self._of_weight(number).items()
            }
            for number in range(len(self._weights))
        }
        return {"steps": self._adam.state[self._masters[0]]["step"].clone(), "weights": weights}

    @torch.no_grad()
    def load_state_dict(self, state: Any) -> None:
        """Take a state that was read."""
        for number, read in state["weights"].items():
            for name, tensor in self._of_weight(number).items():
                tensor.copy_(read[name])
            self._adam.state[self._masters[number]]["step"].copy_(state["steps"])

    def _of_weight(self, number: int) -> dict[str, torch.Tensor]:
        """Return the tensors of a weight's state by name, which begin as zeros, as in Adam's first step."""
        weight, master = self._weights[number], self._masters[number]
        state = self._adam.state[master]
        if not state:
            state.update(step=torch.tensor(0.0), exp_avg=torch.zeros_like(master), exp_avg_sq=torch.zeros_like(master))
        own = {} if weight is master else {"master": master}
        return own | {name: state[name] for name in ("exp_avg", "exp_avg_sq")}

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield the tensors of the state."""
        yield from self._masters
        yield from state_tensors(self._adam)


def _gradient(weight: torch.nn.Parameter) -> torch.Tensor:
    """Return the gradient in the buffer of megatron-core's DistributedDataParallel."""
    gradient: torch.Tensor = weight.main_grad  # type: ignore[attr-defined]
    return gradient


def _global_norm(weights: Iterable[torch.nn.Parameter]) -> torch.Tensor:
    """Return the norm of the gradient over the whole model, with each parameter counted on one rank only."""
    own = [
        w for w in weights if param_is_not_shared(w) and (_is_expert(w) or param_is_not_tensor_parallel_duplicate(w))
    ]
    squares = []
    for experts, group in (
        (False, parallel_state.get_model_parallel_group()),
        (True, parallel_state.get_expert_tensor_model_pipeline_parallel_group()),
    ):
        square = torch.nn.utils.get_total_norm([_gradient(w) for w in own if _is_expert(w) is experts]).square()
        if group.size() > 1:
            torch.distributed.all_reduce(square, group=group)
        squares.append(square)
    return (squares[0] + squares[1]).sqrt()


def _is_expert(weight: torch.nn.Parameter) -> bool:
    return not getattr(weight, "allreduce", True)
