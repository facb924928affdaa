"""Jobs that mostly wait, many at a time, with their results as they come."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def in_parallel(jobs: Mapping[K, Callable[[], T]], workers: int) -> Iterator[dict[K, T]]:
    """Run jobs in at most `workers` threads; yields the results that have come since the last, until all have.

    If a job fails, those that have not begun are dropped; what the running ones give is yielded before the error is
    raised.
    """
    finished: SimpleQueue[Future[T]] = SimpleQueue()
    error: BaseException | None = None
    with ThreadPoolExecutor(min(workers, max(1, len(jobs)))) as pool:
        try:
            keys = {pool.submit(job): key for key, job in jobs.items()}
            for future in keys:
                future.add_done_callback(finished.put)
            missing = len(keys)
            while missing:
                batch = [finished.get()]
                while not finished.empty():
                    batch.append(finished.get())
                missing -= len(batch)
                results = {}
                for future in batch:
                    if future.cancelled():
                        continue
                    if future.exception() is None:
                        results[keys[future]] = future.result()
                    elif error is None:
                        error = future.exception()
                        pool.shutdown(wait=False, cancel_futures=True)
                if results:
                    yield results
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if error is not None:
        raise error


def by_row(
    rows: Sequence[Sequence[K]], jobs: Mapping[K, Callable[[], T]], workers: int
) -> Iterator[dict[int, list[T]]]:
    """Run jobs that rows share, as `in_parallel` does; yields the rows whose jobs are all done: {row: its results}."""
    missing = [set(row) for row in rows]
    rows_of: dict[K, list[int]] = {key: [] for key in jobs}
    for index, row in enumerate(missing):
        for key in row:
            rows_of[key].append(index)
    empty: dict[int, list[T]] = {index: [] for index, row in enumerate(missing) if not row}
    if empty:
        yield empty
    results: dict[K, T] = {}
    for new in in_parallel(jobs, workers):
        results |= new
        complete = {}
        for key in new:
            for index in rows_of[key]:
                missing[index].remove(key)
                if not missing[index]:
                    complete[index] = [results[key] for key in rows[index]]
        if complete:
            yield complete
