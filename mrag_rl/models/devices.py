"""The torch devices that users name: whether they exist, and their free memory."""

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
            f"device {device!r} cannot be used ({reason}); give cpu or a device that this machine has (a run's is in "
            "its config.yaml, and may be changed there)"
        ) from error


def free_memory(device: str) -> dict[str, int | None]:
    """The free bytes of a device, or of each GPU of this machine for "auto" (the CPU if there is none).

    None for a CPU and other kinds of devices, whose limit is not known. Raises InputError as `check_device` does.
    """
    if device == "auto":
        names = [f"cuda:{number}" for number in range(torch.cuda.device_count())] or ["cpu"]
    else:
        check_device(device)
        names = [device]
    return {name: torch.cuda.mem_get_info(name)[0] if name.startswith("cuda") else None for name in names}
