"""LoRA: adapters alone are trained."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks.llm_training.sizes import ATTENTION, MLP, SIZES
from benchmarks.llm_training.tests.conftest import train_variant
from tests.needs import need

pytestmark = pytest.mark.long

SIZE = "tiny-llama-LoRA-MLP"


def test_adapters_alone_are_trained(imported):
    [found] = train_variant("plain", "--size", SIZE)
    of_each = {f"{name}.adapter.{matrix}" for name in ATTENTION + MLP for matrix in ("a_RI", "b_OR")}
    assert len(found["trained"]) == 4 * len(of_each)
    assert {".".join(name.split(".")[-3:]) for name in found["trained"]} == of_each
    assert found["optimized"] == SIZES[SIZE].adapter_parameters
    assert found["losses"][-1] < found["losses"][0]


@pytest.mark.slow
def test_compiled_layers_with_adapters_share_one_graph(imported):
    need("c++")
    [found] = train_variant("layers", "--size", SIZE)
    assert (found["graphs"], found["graph_breaks"]) == (1, 0)


def test_the_norm_of_an_adapted_layer_is_not_in_transformer_engines_product():
    from benchmarks.llm_training.gpt import model

    def layer():
        parts = {name: SimpleNamespace(submodules=SimpleNamespace()) for name in ("self_attention", "mlp")}
        return SimpleNamespace(**parts)

    model._split_norms(both := layer(), ATTENTION + MLP)
    assert (both.input_layernorm, both.pre_mlp_layernorm) == (model.TENorm, model.TENorm)
    assert both.self_attention.submodules.linear_qkv is both.mlp.submodules.linear_fc1 is model.TEColumnParallelLinear
    model._split_norms(attention := layer(), ATTENTION)
    assert not vars(attention.mlp.submodules)
