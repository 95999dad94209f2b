"""Training: AdamW, warm-up and cosine, gradient accumulation, mixed precision, one or several processes, checkpoints.

A step is a function of the weights, the optimiser's state and (seed, step): there is no dropout and the batch depends
on nothing else. So a run that was killed and goes on from its last checkpoint ends with the very weights of an
undisturbed run, bit for bit, on the same machine with the same number of threads and processes. An interrupt (SIGINT or
SIGTERM) ends the step that it falls into, and then writes such a checkpoint.

Devices and processes are Lightning Fabric's (extra `train`); it is imported when training starts, and not before.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from engine._transformer import Transformer
from engine.training._data import IGNORED, Batch, micro_batches
from engine.training._run_config import RunConfig
from engine.training._run_directory import RunDirectory, load_digested, save_digested
from theory import InputError
from theory.numbers import require_at_least

if TYPE_CHECKING:
    from lightning_fabric import Fabric

#: Norm that a step's gradient is cut to.
GRADIENT_NORM = 1.0


@dataclass(frozen=True)
class Devices:
    """Where to train: Fabric's accelerator and the number of processes on this machine, one a device."""

    accelerator: str = "auto"
    count: int = 1


class Interrupted(KeyboardInterrupt):
    """A training was interrupted between two steps.

    Attributes:
        step: steps done; all of them are kept in the run's checkpoint.
        number: of the signal.
    """

    def __init__(self, step: int, number: int) -> None:
        self.step, self.number = step, number
        super().__init__(step, number)


def warn_in_python(message: str) -> None:
    """A warning of Python's."""
    warnings.warn(message, stacklevel=3)


def train(
    config: RunConfig,
    run: RunDirectory,
    *,
    devices: Devices | None = None,
    checkpoint_every: int = 100,
    tick: Callable[[int], None] = lambda steps: None,
    warn: Callable[[str], None] = warn_in_python,
) -> bool:
    """Train in a run directory, from its checkpoint if it has one, until its `model.safetensors` is there.

    Args:
        config: model, data and training.
        run: the directory, which becomes this configuration's own.
        devices: where to train.
        checkpoint_every: steps between checkpoints; it changes no result.
        tick: called with the number of steps done, in the first process.
        warn: called with one line if the run goes on with other versions or threads than it was begun with.

    Returns:
        Whether this is the first process, the one that writes.

    Raises:
        InputError: the directory belongs to another configuration or is in use, its checkpoint is damaged, Fabric is
            missing, or the processes do not divide the micro-batches.
        Interrupted: by SIGINT or SIGTERM, after the step at hand; a checkpoint holds all steps done. A second SIGINT
            does not wait for that. Only where this is called in the main thread.
        OSError: the directory cannot be written.
    """
    require_at_least("checkpoint_every", checkpoint_every, 1)
    fabric = launch(devices or Devices(), config.training.precision)
    if config.training.accumulate % fabric.world_size:
        allowed = f"a multiple of the {fabric.world_size} processes"
        raise InputError("accumulate", config.training.accumulate, allowed)
    first: bool = fabric.is_global_zero
    with run.claimed(config.document()) if first else nullcontext():
        fabric.barrier()
        # Left open, connections break when the first process ends, and another one may be aborted for it. After any
        # other error the group stays as it is: the other processes may be elsewhere, and would wait for each other.
        try:
            if not run.finished:
                trainer = _Trainer(fabric, config)
                _train(trainer, run, config.document(), checkpoint_every, tick if first else _silent, warn)
        except Interrupted:
            # All processes are, after the same step.
            atexit.register(_leave_group)
            raise
        atexit.register(_leave_group)
    return first


def _leave_group() -> None:
    """Leave the group of processes, if there is one, once all of them have come to their end."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        with suppress(RuntimeError):
            torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def _silent(steps: int) -> None:
    pass


def launch(devices: Devices, precision: str) -> Fabric:
    """Fabric for the devices, launched; under torchrun it joins the processes that are there.

    Raises:
        InputError: Fabric is not installed, or cannot have these devices.
    """
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        allowed = "installed for training: pip install 'copycert[train]'"
        raise InputError("package lightning-fabric", "missing", allowed) from error
    require_at_least("devices", devices.count, 1)
    started = int(os.environ.get("LOCAL_WORLD_SIZE", devices.count))
    several = int(os.environ.get("WORLD_SIZE", started)) > 1
    nodes = max(1, int(os.environ.get("WORLD_SIZE", started)) // started)
    try:
        fabric = Fabric(
            accelerator=devices.accelerator,
            devices=started,
            num_nodes=nodes,
            strategy="ddp" if several else "auto",
            precision=cast(Any, precision),
        )
    except (ValueError, RuntimeError) as error:
        # Fabric's own exception for a device that is not there is a RuntimeError too.
        raise InputError("accelerator", devices.accelerator, f"one that is here ({error})") from error
    fabric.launch()
    return fabric


class _SummedLoss(nn.Module):
    """A model and its loss in one module: Fabric rounds what a module returns to float32, which a sum stands better
    than logits do.
    """

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens: Int64[Tensor, "batch length"], targets: Int64[Tensor, "batch length"]
    ) -> Float[Tensor, ""]:
        """Cross-entropy over the answers, summed, in at least float32."""
        logits = self.model(tokens)
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return cross_entropy(wide.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")


class _Trainer:
    """Model, optimiser and data of one process."""

    def __init__(self, fabric: Fabric, run: RunConfig) -> None:
        self.fabric, self.source, self.config, self.bare = fabric, run.data.source(), run.training, run.build()
        groups = self.bare.parameter_groups(run.training.learning_rate, run.training.weight_decay)
        self.peaks = [group["lr"] for group in groups]
        betas = (run.training.beta1, run.training.beta2)
        self.model, self.optimizer = fabric.setup(
            _SummedLoss(self.bare), torch.optim.AdamW(groups, betas=betas, fused=True)
        )
        self.step = 0

    def advance(self) -> dict[str, Any]:
        """One optimiser step on the batch of (seed, step); returns its metrics."""
        config = self.config
        factor = config.rate_factor(self.step)
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * factor
        loss = self._accumulate_gradients(
            micro_batches(
                self.source,
                config.seed,
                self.step,
                config.batch_size,
                config.accumulate,
                config.longest(self.step, self.source.min_length, self.source.max_length),
            )
        )
        norm = self.fabric.clip_gradients(self.model, self.optimizer, max_norm=GRADIENT_NORM, error_if_nonfinite=False)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return {
            "step": self.step - 1,
            "loss": float(loss),
            "gradient_norm": float(norm),  # type: ignore[arg-type]
            "learning_rate": config.learning_rate * factor,
        }

    def _accumulate_gradients(self, batches: list[Batch]) -> Tensor:
        """Gradients of the mean loss an answer token of the whole step; this process's share of the micro-batches."""
        world, rank = self.fabric.world_size, self.fabric.global_rank
        answers = sum(batch.answers for batch in batches)
        mine = batches[rank::world]
        total = torch.zeros((), device=self.fabric.device, dtype=torch.float64)
        for number, batch in enumerate(mine):
            with self.fabric.no_backward_sync(self.model, enabled=number < len(mine) - 1):
                loss = self.model(*map(self.fabric.to_device, (batch.tokens, batch.targets))) / answers
                # Several processes' gradients are averaged, but theirs are parts of one sum.
                self.fabric.backward(loss * world)
            total += loss.detach()
        if world == 1:
            return total
        whole = self.fabric.all_reduce(total, reduce_op="sum")
        assert isinstance(whole, Tensor)
        return whole

    def state(self) -> dict[str, Tensor]:
        """Weights and AdamW's moments, by parameter name."""
        tensors = {f"model.{name}": tensor for name, tensor in self.bare.state_dict().items()}
        for name, moments in self._moments():
            tensors |= {f"adamw.{name}.{key}": moments[key] for key in ("exp_avg", "exp_avg_sq")}
        return tensors

    def restore(self, tensors: dict[str, Tensor], step: int) -> None:
        """Go back to a state; KeyError, RuntimeError or ValueError if it does not fit, nothing being cast."""
        for name, tensor in self.bare.state_dict().items():
            for key in (f"model.{name}", f"adamw.{name}.exp_avg", f"adamw.{name}.exp_avg_sq"):
                there = tensors[key]
                if (there.dtype, there.shape) != (tensor.dtype, tensor.shape):
                    raise ValueError(f"{key} is {there.dtype} of {tuple(there.shape)}")
        weights = {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")}
        self.bare.load_state_dict(weights, strict=True)
        for name, parameter in self.bare.named_parameters():
            moments: dict[str, Tensor] = {"step": torch.tensor(float(step), device=parameter.device)}
            for key in ("exp_avg", "exp_avg_sq"):
                moments[key] = torch.empty_like(parameter).copy_(tensors[f"adamw.{name}.{key}"])
            self.optimizer.state[parameter] = moments
        self.step = step

    def _moments(self) -> Iterator[tuple[str, dict[str, Tensor]]]:
        for name, parameter in self.bare.named_parameters():
            yield name, self.optimizer.state[parameter]


class _Stop:
    """Whether a signal has asked the training to stop."""

    def __init__(self) -> None:
        self.number = 0

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Note the signal; the second SIGINT acts at once."""
        if self.number and number == signal.SIGINT == self.number:
            raise KeyboardInterrupt
        self.number = self.number or number

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                # None stands for a handler that Python did not install and cannot put back.
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def asked(self, fabric: Fabric) -> int:
        """The signal's number, or 0; the same in all processes, so that none waits for one that has stopped."""
        if fabric.world_size == 1:
            return self.number
        largest = fabric.all_reduce(torch.tensor(float(self.number), device=fabric.device), reduce_op="max")
        assert isinstance(largest, Tensor)
        return int(largest)


def _train(
    trainer: _Trainer,
    run: RunDirectory,
    document: dict[str, Any],
    checkpoint_every: int,
    tick: Callable[[int], None],
    warn: Callable[[str], None],
) -> None:
    first = trainer.fabric.is_global_zero
    seconds = 0.0
    if run.checkpoint.exists():
        seconds = _resume(trainer, run)
    if first:
        changed = run.note_environment(trainer.step)
        if changed:
            warn(f"{run.path} was trained up to step {trainer.step} with {changed}: its last digits may differ")
        run.cut_metrics(trainer.step)
    trainer.fabric.barrier()
    tick(trainer.step)
    start, kept, stop = time.perf_counter(), trainer.step, _Stop()

    def spent() -> float:
        return seconds + time.perf_counter() - start

    with stop.listening():
        while trainer.step < trainer.config.steps:
            asked = stop.asked(trainer.fabric)
            due = trainer.step % checkpoint_every == 0 or asked
            if first and due and trainer.step > kept:
                save_digested(run.checkpoint, trainer.state(), {"step": trainer.step, "seconds": spent()})
                kept = trainer.step
            if asked:
                raise Interrupted(trainer.step, asked)
            line = trainer.advance()
            if first:
                run.add_metrics(line)
                tick(trainer.step)
        if first:
            run.note_seconds(spent())
            save_digested(run.model, trainer.bare.state_dict(), document)
            run.checkpoint.unlink(missing_ok=True)
        trainer.fabric.barrier()
        # A signal during the last step still ends what would come after this run.
        asked = stop.asked(trainer.fabric)
    if asked:
        raise Interrupted(trainer.step, asked)


def _resume(trainer: _Trainer, run: RunDirectory) -> float:
    tensors, metadata = load_digested(run.checkpoint)
    try:
        trainer.restore(tensors, int(metadata["step"]))
        return float(metadata["seconds"])
    except (KeyError, RuntimeError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError("checkpoint", str(run.checkpoint), f"a checkpoint of this configuration ({reason})") from error
