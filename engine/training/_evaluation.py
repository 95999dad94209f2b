"""Running trained models: exact match by teacher forcing, generation, attention maps."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from engine._transformer import Transformer
from theory import InputError


@torch.no_grad()
def exact_match(
    model: Transformer, tokens: Int64[Tensor, "batch length"], answer: slice, block: int | None = None
) -> Bool[Tensor, " batch"]:
    """For each sequence: is every token of the answer the arg-max of the logits at the token before it?

    By induction that holds iff greedy generation from the tokens before the answer writes the answer: as long as all
    tokens so far are right, generation and teacher forcing see the same input. Ties go to the smaller token in both.
    Stops at the first block after which no sequence is right any more.

    Args:
        model: the model.
        tokens: whole sequences, prompts and answers.
        answer: which indices the answer takes, a slice with step 1 that begins at 1 or later.
        block: tokens that go through all layers at once; by default 512.

    Raises:
        InputError: an empty answer, or one that begins at index 0.

    Cost: one forward pass, O(length^2) time; memory for the keys and values of all layers, 8 layers length model_width
    bytes a sequence in float32, and blocks of scores.
    """
    start, stop, step = answer.indices(tokens.shape[1])
    if step != 1 or not 1 <= start < stop:
        raise InputError("answer", str(answer), f"a slice of step 1 within the indices 1 to {tokens.shape[1] - 1}")
    right = torch.ones(tokens.shape[0], dtype=torch.bool, device=tokens.device)
    for logits in model.logits_in_blocks(tokens[:, : stop - 1], start - 1, block):
        wanted = tokens[:, start : start + logits.shape[1]]
        right &= (logits.argmax(-1) == wanted).all(-1)
        start += logits.shape[1]
        if not right.any():
            break
    return right
