"""Checks of the torch devices that users name."""

from __future__ import annotations

import torch

from mrag_rl.errors import InputError


def check_device(device: str) -> None:
    """Raise InputError for a device that torch does not know, or that this machine or build of torch does not have."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # NotImplementedError is a RuntimeError
        reason = str(error).splitlines()[0].split(". ")[0]
        raise InputError(
            f"device {device!r} cannot be used ({reason}); give cpu or a device that this machine has"
        ) from error
