"""What sampling verify costs over greedy verify of the same trees, measured in one run on the simulated kernels.

    python benchmarks/greedy_cost.py [--threads 1024] [--rounds 7]

Printed are microseconds a request, best of the rounds, in which all take turns, so that a busy machine slows all: the
greedy kernel, the sampling kernel, and argmax and softmax of the nodes' logits in NumPy. The ratios are those of a
simulated GPU on this CPU, whose threads run one after the other; a GPU's are others.
"""

from __future__ import annotations

import argparse

from cases.claims import verify_cost

SHAPES = ((16, 256), (1024, 64), (32000, 8), (151936, 2))


def main() -> None:
    """Measure and print a line a vocabulary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1024, help="of a block of the sampling kernel")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    names = ("V", "greedy", "sampling", "argmax", "softmax", "kernels", "whole", "differ")
    print(" ".join(f"{name:>9}" for name in names))
    for vocab, batch in SHAPES:
        cost = verify_cost(vocab, batch, arguments.threads, arguments.rounds)
        times = " ".join(f"{took:>9.2f}" for took in (cost.greedy, cost.sampling, cost.argmax, cost.softmax))
        print(f"{vocab:>9} {times} {cost.kernels:>8.1f}x {cost.whole:>8.1f}x {cost.differ:>4} of {cost.batch}")


if __name__ == "__main__":
    main()
