"""lm.muon: the library's optimizer, in another precision."""

from __future__ import annotations

import pytest
import torch

from lm.muon import Muon, orthogonalize


def test_steps_are_those_of_torch() -> None:
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    generator = torch.Generator().manual_seed(0)
    shapes = [(16, 16), (40, 16), (16, 16), (16, 40)]
    ours = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
    theirs = [torch.nn.Parameter(weight.detach().clone()) for weight in ours]
    optimizers = [
        Muon([{"params": ours}], lr=0.02),
        torch.optim.Muon([{"params": theirs}], lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
    ]
    before = [weight.detach().clone() for weight in ours]
    for _ in range(5):
        for mine, other in zip(ours, theirs, strict=True):
            mine.grad = torch.randn(mine.shape, generator=generator)
            other.grad = mine.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for mine, other, old in zip(ours, theirs, before, strict=True):
        assert (mine - old).abs().max() > 1e-3
        assert (mine - other).norm() < 0.03 * (mine - old).norm()  # bfloat16 has three digits


def test_a_matrix_is_made_nearly_orthogonal() -> None:
    matrices = torch.randn(3, 12, 30, generator=torch.Generator().manual_seed(1))
    values = torch.linalg.svdvals(orthogonalize(matrices))
    assert values.min() > 0.3 and values.max() < 1.3
    torch.testing.assert_close(orthogonalize(matrices.mT), orthogonalize(matrices).mT)


def test_a_matrix_without_a_gradient_stays() -> None:
    with_gradient, without = torch.nn.Parameter(torch.eye(4)), torch.nn.Parameter(torch.eye(4))
    with_gradient.grad = torch.ones(4, 4)
    Muon([{"params": [with_gradient, without]}], lr=0.1).step()
    assert torch.equal(without, torch.eye(4)) and not torch.equal(with_gradient, torch.eye(4))
