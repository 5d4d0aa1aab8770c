"""Running the parts of a search on several processes, with the same outcome as on one.

Parts belong to groups (one for each kind of the small scope, one for the random cases) and are
numbered. A failure makes the later parts of its group pointless; all earlier ones run to their end,
so the failure that is reported is the one with the lowest number, however many processes there are.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing.context import BaseContext

from kvwitness.errors import CannotRun
from kvwitness.settings import Judged, Search
from kvwitness.shards import RANDOM, Part, Scope, run_piece, run_shard
from kvwitness.trial import Trial

NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Task:
    """One part to run: piece ``number`` of the small scope of kind ``group``, or shard ``number`` of ``RANDOM``."""

    group: str
    number: int
    until: float | None = None


class Limits:
    """By group, the number of the last part that is worth running; shared by all processes of a search."""

    __slots__ = ("_shared", "_slots")

    def __init__(self, groups: Iterable[str], context: BaseContext | None) -> None:
        self._slots = {group: slot for slot, group in enumerate(groups)}
        start = [NEVER] * len(self._slots)
        self._shared = start if context is None else context.Array("q", start)

    def last(self, group: str) -> int:
        return self._shared[self._slots[group]]

    def lower(self, group: str, number: int) -> None:
        with getattr(self._shared, "get_lock", nullcontext)():
            slot = self._slots[group]
            self._shared[slot] = min(self._shared[slot], number)

    def close(self) -> None:
        """Let every part that is running end at its next case."""
        for group in self._slots:
            self.lower(group, -1)


@dataclass(frozen=True, slots=True)
class TaskGate:
    """A ``Gate`` of one task."""

    task: Task
    limits: Limits

    def closed(self) -> bool:
        return self.task.number > self.limits.last(self.task.group)

    def close_behind(self) -> None:
        self.limits.lower(self.task.group, self.task.number)


class Worker:
    """What a process keeps between the parts that it runs."""

    __slots__ = ("limits", "scopes", "search", "trial")

    def __init__(self, judged: Judged, search: Search, limits: Limits) -> None:
        self.trial = Trial(judged)
        self.search = search
        self.limits = limits
        self.scopes: dict[str, Scope] = {}

    def run(self, task: Task) -> Part:
        gate = TaskGate(task, self.limits)
        if gate.closed():
            return Part(task.group, task.number, complete=False)
        if task.group == RANDOM:
            return run_shard(self.trial, self.search, task.number, task.until, gate)
        scope = self.scopes.get(task.group)
        if scope is None:
            scope = self.scopes[task.group] = Scope(task.group, self.search.scope)
        return run_piece(self.trial, scope, task.group, task.number, self.search.shrink_seconds / 3, gate)


_worker: Worker | None = None


def spare_the_collector() -> None:
    """Have the garbage collector of this process look less often, and not at what is loaded by now.

    Nearly all of a case dies by its reference count, and what caches keep is no garbage: looking through
    both at the usual rate costs a fifth of the time.
    """
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def _start(judged: Judged, search: Search, limits: Limits) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process tells its workers to stop
    _worker = Worker(judged, search, limits)
    spare_the_collector()


def _run(task: Task) -> Part:
    assert _worker is not None
    return _worker.run(task)


class Workers:
    """A pool of processes for the parts of one search; one job runs everything in this process."""

    __slots__ = ("_pool", "_worker", "jobs", "limits")

    def __init__(self, judged: Judged, search: Search, groups: Iterable[str]) -> None:
        self.jobs = search.jobs
        # Engines may hold devices and threads, which do not survive a fork.
        context = multiprocessing.get_context("spawn") if self.jobs > 1 else None
        self.limits = Limits(groups, context)
        self._worker = Worker(judged, search, self.limits) if context is None else None
        self._pool = None
        if context is not None:
            self._pool = ProcessPoolExecutor(self.jobs, context, _start, (judged, search, self.limits))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.limits.close()
        if self._pool is None:
            return
        if kind is not None:
            # Nobody waits for what is left, and a second interrupt must find nothing to wait for.
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                process.terminate()
        self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def run(self, tasks: Iterable[Task]) -> Iterator[Part]:
        """Run ``tasks``, of one group and in order, and yield each part as it ends, up to the first pointless task."""
        if self._worker is not None:
            for task in tasks:
                if task.number > self.limits.last(task.group):
                    return
                yield self._worker.run(task)
            return
        waiting: set[Future[Part]] = set()
        source = iter(tasks)
        exhausted = False
        try:
            while waiting or not exhausted:
                while not exhausted and len(waiting) < 2 * self.jobs:
                    task = next(source, None)
                    if task is None or task.number > self.limits.last(task.group):
                        exhausted = True
                    else:
                        waiting.add(self._pool.submit(_run, task))
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except BrokenProcessPool:
            raise CannotRun(
                "a worker process died: too little memory, or an engine crashed; --jobs 1 shows more"
            ) from None
