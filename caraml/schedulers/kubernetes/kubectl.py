"""kubectl, with the user's own configuration and rights."""

from __future__ import annotations

import json
import subprocess
from typing import Any, NamedTuple

from benchmarks.common.node.programs import NoProgram, ProgramError, ask, words
from caraml.errors import SchedulerError, SiteError

Object = dict[str, Any]  # of the API

PART, NAME = "app.kubernetes.io/name", "app.kubernetes.io/instance"  # labels of this suite, and of one Job
LIMIT_S = 120  # of one call of kubectl


class Kubectl(NamedTuple):
    """kubectl for one cluster and namespace; empty: those of its own configuration."""

    context: str = ""
    namespace: str = ""

    def try_to(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Return the completed kubectl process, whatever its exit code.

        Raises SchedulerError if kubectl does not end in time, and SiteError if there is none.
        """
        where = [f"--{name}={value}" for name, value in self._asdict().items() if value]
        try:
            return ask("kubectl", *where, "--request-timeout=60s", *arguments, limit_s=LIMIT_S)
        except NoProgram as error:
            raise SiteError(f"{error}: install it") from error
        except ProgramError as error:
            raise SchedulerError(f"Kubernetes does not answer: {error}") from error

    def __call__(self, *arguments: str) -> str:
        """Return the output of kubectl; raises SchedulerError if it fails."""
        done = self.try_to(*arguments)
        if done.returncode:
            raise SchedulerError(f"Kubernetes does not answer: {words(done)}")
        return done.stdout

    def json(self, *arguments: str) -> Object:
        """Return the output of kubectl as JSON; raises SchedulerError if it fails."""
        return dict(json.loads(self(*arguments, "-o", "json")))


def read_job_id(text: str) -> tuple[str, Kubectl]:
    """Return the name of a Job and its cluster from the content of `job.id`, NAME;NAMESPACE;CONTEXT."""
    name, namespace, context = text.strip().split(";")
    return name, Kubectl(context, namespace)
