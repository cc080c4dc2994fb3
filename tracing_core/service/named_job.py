# SPDX-License-Identifier: Apache-2.0
"""The job that a path names: of one tenant, and there."""

from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

from fastapi import HTTPException

from tracing_core.service.api import Tenant
from tracing_core.service.encoded_ids import JobName
from tracing_core.service.problems import not_found
from tracing_core.store.jobs import JobStore


class NamedJob(NamedTuple):
    """A job that exists."""

    tenant: str
    job: str


def job_finder(jobs: JobStore) -> Callable[[str, str], NamedJob]:
    """A dependency of routes below `/v1/jobs/{job}`."""

    def found(job: JobName, tenant: Tenant = "") -> NamedJob:
        tenants = jobs.tenants_of(job, tenant=tenant)
        if not tenants:
            raise not_found(f"there is no job {job}")
        if len(tenants) > 1:
            raise HTTPException(
                HTTPStatus.CONFLICT,
                f"tenant: several tenants have a job {job}: {', '.join(tenants)}; name one",
            )
        return NamedJob(tenants[0], job)

    return found
