"""Executors on other machines."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from npyflow._core.errors import JobError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor


@contextmanager
def _quiet_end() -> Iterator[None]:
    """After an error or Ctrl-C, leave out what Dask logs about connections that end."""
    try:
        yield
    except BaseException:
        logging.disable(logging.CRITICAL)
        raise


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """Yield an executor whose tasks run on a Dask cluster; tasks of a worker that dies go to another.

    Parameters
    ----------
    address : str
        Of the scheduler, such as ``"tcp://10.0.0.1:8786"``.

    Raises
    ------
    MissingDependencyError
        Without Dask.
    JobError
        If there is no scheduler.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError:
        raise MissingDependencyError("--dask needs the package distributed: pip install 'npyflow[dask]'") from None
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise JobError(f"--dask {address}: no Dask scheduler answers there ({error})") from None
    with client, _quiet_end():
        # The same task always writes the same files, so a task may run twice.
        yield client.get_executor(pure=False)
