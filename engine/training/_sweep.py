"""Many independent runs at once: in processes of this machine, or on a Dask cluster that the user names.

Results come as they are done, in any order. The function and its arguments must be picklable and the function's module
importable where it runs. A run's own directory makes it resumable, so that a sweep that was interrupted goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from types import FrameType
from typing import Any, Generic, TypeVar

from theory import InputError
from theory.numbers import require_at_least

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Seconds to wait for a Dask scheduler to answer.
DASK_TIMEOUT = 10


def sweep(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    processes: int = 1,
    dask: str | None = None,
) -> Iterator[tuple[int, Result]]:
    """(index, function(item)) for every item, as they are done.

    Args:
        function: a module-level function.
        items: its arguments.
        processes: of this machine, each with one torch thread; 1 runs in this very process, as it is.
        dask: address of a Dask scheduler, `tcp://host:port`; then `processes` is not used.

    Raises:
        InputError: `processes` < 1, Dask is not installed, or there is no scheduler at the address.
    """
    require_at_least("processes", processes, 1)
    if dask is not None:
        yield from _on_dask(function, items, dask)
    elif processes == 1:
        yield from ((number, function(item)) for number, item in enumerate(items))
    else:
        yield from _in_processes(function, items, processes)


def _in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], processes: int
) -> Iterator[tuple[int, Result]]:
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin) as pool:
        numbers = {pool.submit(_Interruptible(function), item): number for number, item in enumerate(items)}
        try:
            for future in as_completed(numbers):
                yield numbers[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # Ctrl-C reaches the whole group of processes, but a signal to this one alone does not.
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise


@dataclass
class _Worker:
    """What a process of the pool is doing: in a run, and asked to stop."""

    busy: bool = False
    stopped: bool = False

    def stop(self, number: int, frame: FrameType | None) -> None:
        """End the run at hand; the runs that wait in the process's queue do not begin."""
        self.stopped = True
        if self.busy:
            raise KeyboardInterrupt


_WORKER = _Worker()


def _begin() -> None:
    one_thread()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _WORKER.stop)


@dataclass(frozen=True)
class _Interruptible(Generic[Item, Result]):
    """A function of the pool that is not called any more once the process was interrupted."""

    function: Callable[[Item], Result]

    def __call__(self, item: Item) -> Result:
        if _WORKER.stopped:
            raise KeyboardInterrupt
        _WORKER.busy = True
        try:
            return self.function(item)
        except KeyboardInterrupt:
            _WORKER.stopped = True
            raise
        finally:
            _WORKER.busy = False


def one_thread() -> None:
    """One torch thread in this process; several processes share the cores better than several threads."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    import torch

    torch.set_num_threads(1)


def _on_dask(function: Callable[[Item], Result], items: Sequence[Item], address: str) -> Iterator[tuple[int, Result]]:
    try:
        import distributed
    except ImportError as error:
        raise InputError("package distributed", "missing", "installed: pip install 'copycert[train]'") from error
    module: Any = distributed
    try:
        client = module.Client(address, timeout=DASK_TIMEOUT)
    except (OSError, ValueError) as error:
        allowed = f"the address of a running Dask scheduler ({type(error).__name__})"
        raise InputError("dask", address, allowed) from error
    with client:
        # pure=False: the same run asked for twice is not to be served from an earlier answer.
        futures = client.map(function, items, pure=False)
        numbers = {future.key: number for number, future in enumerate(futures)}
        for future, result in module.as_completed(futures, with_results=True):
            yield numbers[future.key], result
