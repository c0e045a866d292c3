"""In the place of Graphcore's poptorch: the calls that the benchmark makes, done on the CPU as documented."""

import json
import types

import torch

asked = {"blocks": []}


class Options:
    def __init__(self):
        self.accumulation = 1
        self.Training = types.SimpleNamespace(gradientAccumulation=self._accumulate)

    def _accumulate(self, number):
        self.accumulation = asked["gradientAccumulation"] = number

    def randomSeed(self, seed):
        torch.manual_seed(seed)

    def deviceIterations(self, number):
        assert number == 1

    def outputMode(self, mode):
        assert mode is OutputMode.All

    def setExecutionStrategy(self, strategy):
        asked["strategy"] = strategy


class OutputMode:
    All = object()


class AutoStage:
    AutoIncrement = "AutoIncrement"


def PipelinedExecution(stage):
    return f"PipelinedExecution({stage})"


def BeginBlock(layer, user_id=None, ipu_id=None):
    assert isinstance(layer, torch.nn.Module)
    asked["blocks"].append([user_id, ipu_id])
    return layer


def identity_loss(loss, reduction):
    assert reduction == "none"
    return loss


class AdamW(torch.optim.AdamW):
    def __init__(self, params, max_grad_norm, loss_scaling, **options):
        super().__init__(params, **options)
        self.max_grad_norm, self.loss_scaling = max_grad_norm, loss_scaling


optim = types.SimpleNamespace(AdamW=AdamW)


def trainingModel(model, options, optimizer):
    with open(f"{__file__.rpartition('/')[0]}/asked.json", "w") as file:
        json.dump(asked, file)
    return Training(model, options, optimizer)


class Training:
    """One call is one optimizer step over gradientAccumulation micro batches, of which it gives every loss."""

    def __init__(self, model, options, optimizer):
        self.model, self.options, self.optimizer = model, options, optimizer

    def setOptimizer(self, optimizer):
        self.optimizer = optimizer

    def __call__(self, tokens, labels):
        assert tokens.dtype == labels.dtype == torch.int32
        self.optimizer.zero_grad()
        losses = []
        for part, wanted in zip(
            tokens.chunk(self.options.accumulation), labels.chunk(self.options.accumulation), strict=True
        ):
            loss = self.model(part.long(), wanted.long())
            (loss / self.options.accumulation).backward()
            losses.append(loss.detach())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.optimizer.max_grad_norm)
        self.optimizer.step()
        return torch.stack(losses)
