"""A job: a list of shard tasks, run by any executor; interrupted, it goes on where it was."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import threading
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from npyflow._core.errors import JobError, NpyflowError, OptionError
from npyflow._core.text import plural, show_path
from npyflow._format.schema import Shard
from npyflow._order.layout import cpus
from npyflow._write.fingerprint import content_digest
from npyflow._write.folder import claimed, clear_away, finished_shard
from npyflow._write.supply import narrowed
from npyflow._write.task import Task, Verify, write_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from npyflow._flow.view import View
    from npyflow._format.schema import Column
    from npyflow._write.base import Format
    from npyflow._write.plan import Part

# What Python does for an example, whatever its size.
_EXAMPLE_SECONDS = 20e-6
# A process that writes takes longer than this to start.
_WORTH_A_PROCESS = 4.0
# Tasks that wait at an executor: enough to keep it busy, few enough to stop at once.
_WAITING_PER_WORKER = 4
_MOST_WAITING = 256


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """What is to be written, and where.

    Parameters
    ----------
    view : View
        The examples.
    columns : tuple of Column
        What they have.
    parts : tuple of Part
        The shards.
    format : Format
        How they are kept.
    folder : str
        The target, absolute.
    verify : str
        How much is read back.
    """

    view: View
    columns: tuple[Column, ...]
    parts: tuple[Part, ...]
    format: Format
    folder: str
    verify: Verify

    @property
    def travels(self) -> bool:
        """Whether tasks can go to other processes: data in RAM and functions cannot."""
        return not self.view.content.mappings and all(one.kind != "arrays" for one in self.view.content.components)

    def fingerprint(self) -> str | None:
        """What tells this job from others, to go on with it; None where that cannot be told."""
        if not self.travels:
            return None
        facts = [
            content_digest(self.view.content, self.view.selection),
            self.format.name,
            self.format.options,
            [(one.name, str(one.spec)) for one in self.columns],
            [(one.start, one.stop) for one in self.parts],
        ]
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def task(self, part: Part, run: str = "") -> Task:
        """The task that writes one shard, in a run of the job or to try it."""
        content, selection = narrowed(self.view, part.start, part.stop)
        return Task(
            content=content,
            selection=selection,
            columns=self.columns,
            format=self.format,
            folder=self.folder,
            number=part.number,
            first=part.start,
            stem=part.stem,
            verify=self.verify,
            run=run,
        )


def run(
    job: Job,
    *,
    workers: int | None,
    executor: Executor | None,
    progress: Any,
    finish: Callable[[tuple[Shard, ...]], None],
) -> None:
    """Write all shards that are not there yet, and make a data set of them.

    Parameters
    ----------
    workers : int or None
        At one time, in processes of their own or in threads; None for as many as pay.
    executor : Executor or None
        What runs the tasks in place of our own.
    progress : Progress
        Is told how far it is.
    finish : callable
        Gets all shards in order, and writes what makes a data set of them, while the folder is still this job's.

    Raises
    ------
    JobError
        If the folder is in use or holds something else, or a worker dies.
    NpyflowError
        If a shard cannot be written. Those that are finished stay, and the same job goes on with the others.
    """
    if executor is not None and not isinstance(executor, Executor):
        raise OptionError(f"executor={executor!r}: expected a concurrent.futures.Executor")
    if executor is not None and not job.travels:
        raise OptionError("executor=: arrays in RAM and functions of map() cannot go to other processes; leave it out")
    with claimed(job.folder, job.fingerprint()) as name:
        shards: dict[int, Shard | None]
        shards = {part.number: finished_shard(job.folder, part.number, job.verify) for part in job.parts}
        missing = [part for part in job.parts if shards[part.number] is None]
        progress.start(f"writing {plural(len(job.parts), 'shard')}", len(job.parts))
        for _ in range(len(job.parts) - len(missing)):
            progress.step()
        with _crew(job, missing, workers, executor) as crew:
            for number, shard in _run_all(job, name, missing, crew):
                shards[number] = shard
                progress.step()
        finish(tuple(shard for _, shard in sorted(shards.items()) if shard is not None))
    clear_away(job.folder)


def _run_all(job: Job, run: str, parts: Sequence[Part], crew: Crew) -> Iterator[tuple[int, Shard]]:
    """Keep the crew busy, a few tasks ahead; after an error, or Ctrl-C, nothing new begins."""
    rest = iter(parts)
    running: dict[Future[tuple[int, Shard]], Part] = {}
    finished = len(job.parts) - len(parts)
    try:
        while True:
            while len(running) < crew.waiting and (part := next(rest, None)) is not None:
                running[crew.submit(job.task(part, run))] = part
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                with _explained(job, running.pop(future), finished):
                    result = future.result()
                finished += 1
                yield result
    finally:
        crew.give_up(running)


@contextlib.contextmanager
def _explained(job: Job, part: Part, finished: int) -> Iterator[None]:
    """Add to an error which example of the flow it is, what is finished, and how to go on."""
    state = (
        f"{finished:,} of {plural(len(job.parts), 'shard')} in {show_path(job.folder)} are finished and stay; run the "
        f"same again to go on"
    )
    try:
        yield
    except NpyflowError as error:
        error.index = None if error.index is None else error.index + part.start
        error.args = (f"{error}\n{state}", *error.args[1:])
        raise
    except BrokenProcessPool:
        raise JobError(
            f"a worker process died: it was killed, perhaps for want of memory, or your script starts this without "
            f'`if __name__ == "__main__":`. {state}; with workers=1 no process is started',
            path=job.folder,
        ) from None
    except OSError as error:
        name = show_path(error.filename or job.folder)
        raise JobError(f"{name}: {error.strerror or error}. {state}", path=job.folder) from error
    except Exception as error:
        # What an executor raises when its workers are gone is known to itself alone.
        raise JobError(f"a worker failed ({type(error).__name__}: {error}). {state}", path=job.folder) from error


class Crew(NamedTuple):
    """Who does the work.

    Parameters
    ----------
    submit : callable
        Hands over a task.
    waiting : int
        How many to hand over at one time.
    give_up : callable
        Takes back what was handed over and not begun.
    """

    submit: Callable[[Task], Future[tuple[int, Shard]]]
    waiting: int
    give_up: Callable[[Iterable[Future[Any]]], None]


def _cancel(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.cancel()


@contextlib.contextmanager
def _crew(job: Job, parts: Sequence[Part], workers: int | None, executor: Executor | None) -> Iterator[Crew]:
    if executor is not None:
        # Executors of others may fail over futures that are cancelled, as Dask's does; what still runs harms nobody.
        ours = isinstance(executor, ThreadPoolExecutor | ProcessPoolExecutor)
        yield Crew(lambda task: executor.submit(write_shard, task), _MOST_WAITING, _cancel if ours else lambda _: None)
        return
    count = min(len(parts), workers or cpus()) or 1
    python_seconds = sum(part.examples for part in parts) * len(job.columns) * _EXAMPLE_SECONDS
    if count == 1 or not job.travels or (workers is None and python_seconds < _WORTH_A_PROCESS):
        with _threads(count) as crew:
            yield crew
    else:
        with _processes(count) as crew:
            yield crew


@contextlib.contextmanager
def _threads(count: int) -> Iterator[Crew]:
    """Reading, writing and checksums let other threads run."""
    stop = threading.Event()
    with ThreadPoolExecutor(count) as pool:
        try:
            yield Crew(lambda task: pool.submit(write_shard, task, stop.is_set), count, _cancel)
        finally:
            stop.set()


@contextlib.contextmanager
def _processes(count: int) -> Iterator[Crew]:
    """For examples so many that one Python could not keep up."""
    import multiprocessing

    # Forked, a process that has TensorFlow's threads may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_follow_the_leader)

    def submit(task: Task) -> Future[tuple[int, Shard]]:
        with _no_interrupts():
            return pool.submit(write_shard, task)

    try:
        # The pool itself cancels, below: it fails over futures that others have cancelled when its processes die.
        yield Crew(submit, count * _WAITING_PER_WORKER, lambda _: None)
    except BaseException:
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        # A shard takes seconds, and whoever pressed Ctrl-C does not want to wait for it.
        for process in processes:
            process.terminate()
        raise
    pool.shutdown()


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back, here and in processes that start meanwhile: they inherit that."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow_the_leader() -> None:
    """Leave Ctrl-C, which every process of a terminal gets, to the leader; and end when it does, however that is."""
    import multiprocessing

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    leader = multiprocessing.parent_process()

    def wait_for_it() -> None:
        if leader is not None:
            leader.join()
            os._exit(1)

    threading.Thread(target=wait_for_it, daemon=True).start()
