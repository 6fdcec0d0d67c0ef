"""Rule sampler-match in 20 lines: draw the target's next token, go on where a child has it."""

import numpy as np

from harness import Request, Result


class MyVerifier:
    """Draws from the target at each node; its noise is its own."""

    rule = "sampler-match"

    def verify(self, request: Request) -> Result:
        """Return the tokens of every step, left to right, and how many there are."""
        rng = np.random.default_rng(request.seed)
        B, S = request.batch, request.depth_limit
        tokens, lengths = np.full((B, S), -1), np.zeros(B, np.int64)
        node, live = np.zeros(B, np.int64), np.arange(B)
        while len(live):
            running = np.cumsum(request.target_probs[live, node[live]], axis=1, dtype=np.float64)
            drawn = (running <= rng.random(len(live))[:, None] * running[:, -1:]).sum(axis=1)
            tokens[live, lengths[live]] = drawn
            lengths[live] += 1
            child = (request.parents[live] == node[live, None]) & (request.candidates[live] == drawn[:, None])
            node[live] = child.argmax(axis=1)
            live = live[child.any(axis=1) & (lengths[live] < S)]
        return Result(tokens=tokens, lengths=lengths)
