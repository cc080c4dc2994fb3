# SPDX-License-Identifier: Apache-2.0
"""What all spans of a resource or a scope have in common, a value per span."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from tracing_core.model import (
    RESOURCE_CLOCK_DOMAIN,
    RESOURCE_HOST,
    RESOURCE_SERVICE,
    RESOURCE_TENANT,
)
from tracing_core.otlp.wire import Bytes
from tracing_core.store.blocks import tables as at
from tracing_core.store.blocks.native import Keys
from tracing_core.store.blocks.tables import Index, Numbers

_RESOURCES_CACHED_MAX = 4096
"""Resources whose attributes are remembered: every process that sends has one."""


@dataclass(frozen=True, slots=True)
class Texts:
    """A dictionary and the number of each span's entry."""

    keys: Keys
    index: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Shared:
    """Columns of what spans have from their resource, scope and request."""

    tenant: Texts
    clock_domain: Texts
    host: Texts
    service: Texts
    resource: Texts
    resource_schema_url: Texts
    scope: Texts
    scope_schema_url: Texts
    received_ns: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Known:
    """The well-known attributes of a resource; values of another type than text don't count."""

    tenant: bytes
    clock_domain: bytes
    host: bytes
    service: bytes


@lru_cache(maxsize=_RESOURCES_CACHED_MAX)
def _known(body: bytes) -> _Known:
    texts = {
        pair.key: pair.value.string_value.encode()
        for pair in Resource.FromString(body).attributes
        if pair.value.WhichOneof("value") == "string_value"
    }
    return _Known(
        tenant=texts.get(RESOURCE_TENANT, b""),
        clock_domain=texts.get(RESOURCE_CLOCK_DOMAIN, b""),
        host=texts.get(RESOURCE_HOST, b""),
        service=texts.get(RESOURCE_SERVICE, b""),
    )


def shared_columns(
    buf: Bytes, index: Index, *, tenants: Sequence[str], received_ns: Sequence[int]
) -> Shared:
    """The columns; `tenants` and `received_ns` are those of the requests."""
    resources, scopes = index.resources, index.scopes
    bodies = _bodies(buf, resources, at.BODY)
    known = [_known(body) for body in bodies]
    record = resources[:, at.OWNER].tolist()
    of_scope = index.spans[:, at.SCOPE]
    of_resource = scopes[of_scope, at.OWNER]

    def resource(value: Callable[[_Known], bytes]) -> Texts:
        return _texts([value(item) for item in known], of_resource)

    own = [item.tenant or tenants[record[i]].encode() for i, item in enumerate(known)]
    return Shared(
        tenant=_texts(own, of_resource),
        clock_domain=resource(lambda item: item.clock_domain),
        host=resource(lambda item: item.host),
        service=resource(lambda item: item.service),
        resource=_texts(bodies, of_resource),
        resource_schema_url=_texts(_bodies(buf, resources, at.SCHEMA_URL), of_resource),
        scope=_texts(_bodies(buf, scopes, at.BODY), of_scope),
        scope_schema_url=_texts(_bodies(buf, scopes, at.SCHEMA_URL), of_scope),
        received_ns=np.array(received_ns, np.int64)[resources[of_resource, at.OWNER]],
    )


def _bodies(buf: Bytes, groups: Numbers, column: int) -> list[bytes]:
    places = groups[:, column : column + 2].tolist()
    return [buf[offset : offset + size].tobytes() for offset, size in places]


def _texts(values: Sequence[bytes], owner: Numbers) -> Texts:
    numbers: dict[bytes, int] = {}
    index = np.array([numbers.setdefault(value, len(numbers)) for value in values], np.uint32)
    return Texts(Keys.of(list(numbers)), index[owner])
