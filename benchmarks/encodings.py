"""Training speed: tokens a second of every encoding, beside two models of the same shape from elsewhere.

The plain model follows nanoGPT's published configuration: learned positions added to the embeddings, pre-norm
LayerNorm without bias, one matrix for queries, keys and values, torch's fused attention, an MLP of four times the width
with GELU, read-out tied to the embeddings, dropout 0. It turns nothing. The other is x-transformers' decoder with
rotary positions, RMSNorm, fused attention and a GELU MLP, where that package is installed (extra `bench`).

Each repeat times one training step (forward, loss at every token, backward, AdamW) of each model in turn, one thread,
CPU time; ratios are of steps of the same repeat, with their median and a bootstrap interval. A limit holds if the
favourable end of the interval keeps it. Results: results/encodings.jsonl, a line a model, then a line a ratio.
"""

from __future__ import annotations

import importlib.util
import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks._campaign import option_parser, write_fresh
from engine import ENCODINGS, ModelConfig, build_model

RESULTS = Path(__file__).parent / "results" / "encodings.jsonl"
FOLDERS = ("engine", "benchmarks/encodings.py")
VOCABULARY, WIDTH, LAYERS, HEADS, BATCH, LENGTH = 5, 128, 2, 2, 32, 204
PLAIN, ROTARY = "plain GPT-2 shape", "x-transformers, rotary"
REPEATS, WARM_UP, RESAMPLES = 25, 3, 4000

#: (of, against, limit, "at least" or "at most"): a ratio of tokens a second, or of seconds a step.
LIMITS = (
    ("rope", ROTARY, 1.0, "at least"),
    ("rope", PLAIN, 1.0, "at least"),
    ("rope2d", "rope", 1.05, "at most"),
    ("auto2d", "rope", 1.25, "at most"),
)


class PlainBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.projection = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        parts = self.attention(self.first_norm(x)).split(WIDTH, dim=2)
        queries, keys, values = (part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts)
        heads = nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.projection(heads.transpose(1, 2).contiguous().view(batch, length, WIDTH))
        return x + self.mlp(self.second_norm(x))


class PlainModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(PlainBlock() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        self.readout = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.readout.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.readout(self.norm(x))


def rotary_model() -> nn.Module:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(
        dim=WIDTH, depth=LAYERS, heads=HEADS, attn_dim_head=WIDTH // HEADS, rotary_pos_emb=True,
        rotary_emb_dim=WIDTH // HEADS, use_rmsnorm=True, attn_flash=True, ff_mult=4, ff_no_bias=True,
    )  # fmt: skip
    return TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=LENGTH, attn_layers=layers, use_abs_pos_emb=False)


def training_step(model: nn.Module, groups: list) -> Callable[[Tensor], None]:
    optimiser = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)

    def step(tokens: Tensor) -> None:
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def interleaved(repeats: int) -> dict[str, np.ndarray]:
    """CPU seconds of each repeat's step, by model."""
    torch.manual_seed(0)
    plain = PlainModel()
    steps = {PLAIN: training_step(plain, [{"params": list(plain.parameters()), "weight_decay": 0.01}])}
    if importlib.util.find_spec("x_transformers"):
        rotary = rotary_model()
        steps[ROTARY] = training_step(rotary, [{"params": list(rotary.parameters()), "weight_decay": 0.01}])
    for encoding in ENCODINGS:
        model = build_model(ModelConfig(encoding, VOCABULARY, WIDTH, LAYERS, HEADS, 4 * WIDTH), 0)
        steps[encoding] = training_step(model, model.parameter_groups(1e-3, 0.01))
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(repeats + WARM_UP):
        tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1))
        for name, step in steps.items():
            start = time.process_time()
            step(tokens)
            if repeat >= WARM_UP:
                seconds[name].append(time.process_time() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def interval(ratios: np.ndarray) -> tuple[float, float, float]:
    """Median, and the middle 95% of the medians of resamples."""
    draws = np.random.default_rng(0).choice(ratios, (RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return float(np.median(ratios)), float(low), float(high)


def limit_rows(seconds: dict[str, np.ndarray]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, against, limit, sense in LIMITS:
        if against not in seconds:
            continue
        ratios = seconds[against] / seconds[name] if sense == "at least" else seconds[name] / seconds[against]
        middle, low, high = interval(ratios)
        kept = high >= limit if sense == "at least" else low <= limit
        unit = "tokens/s" if sense == "at least" else "time a step"
        rows.append({"of": name, "against": against, "unit": unit, "median": middle, "low": low, "high": high,
                     "limit": f"{sense} {limit}", "kept": bool(kept)})  # fmt: skip
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = option_parser(__doc__, RESULTS)
    parser.add_argument("--repeats", type=int, default=REPEATS, help="interleaved repeats, at least 15")
    repeats = max(15, (options := parser.parse_args(arguments)).repeats)
    torch.set_num_threads(1)
    seconds = interleaved(repeats)
    speed = {name: BATCH * LENGTH / float(np.median(values)) for name, values in seconds.items()}
    rows = limit_rows(seconds)
    console = Console()
    for name, value in speed.items():
        console.print(f"{name:20} {value:10.0f} tokens/s")
    table = Table("ratio", "median", "95% interval", "limit", "kept", box=None)
    for row in rows:
        table.add_row(f"{row['of']} / {row['against']}, {row['unit']}", f"{row['median']:.3f}",
                      f"{row['low']:.3f} to {row['high']:.3f}", str(row["limit"]), str(row["kept"]))  # fmt: skip
    console.print(table)
    head = {"seed": 0, "python": platform.python_version(), "torch": torch.__version__, "repeats": repeats}
    lines = [{"model": name, "tokens_per_second": value} for name, value in speed.items()]
    write_fresh(options.out, head, FOLDERS, [*lines, *rows])


if __name__ == "__main__":
    main()
