"""One process of a data parallel run: `python torch_bridge_worker.py rank folder`. It stores the gradients it ends with.

All numbers are small integers and quarters, so sums are exact and their order does not matter.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from windowgrad.bridges.torch import nn


def network():
    made = torch.nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.MaxPool2d(2), nn.Conv2d(3, 2, 2), nn.AvgPool2d(2), torch.nn.Flatten(), nn_sum()
    )
    with torch.no_grad():
        for number, parameter in enumerate(made.parameters()):
            parameter.copy_((torch.arange(parameter.numel()).reshape(parameter.shape) + number) % 5 - 2)
    return made


class nn_sum(torch.nn.Module):  # noqa: N801  # reads as a layer
    def forward(self, x):
        return x.pow(2).sum()


def batch():
    return (torch.arange(4 * 10 * 10).reshape(4, 1, 10, 10) * 7 % 11 - 5).to(torch.float64)


def gradients(made, x):
    made(x).backward()
    return [parameter.grad for parameter in made.parameters()]


def main(rank: int, folder: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    found = gradients(DistributedDataParallel(network().double()), batch()[rank::2])
    torch.save(found, folder / f"{rank}.pt")
    dist.barrier()  # neither ends while the other still talks to it
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
