# SPDX-License-Identifier: Apache-2.0
"""Whose spans a request holds: what a tenant's token lets through."""

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from tracing_core.otlp import CONTENT_TYPE_PROTOBUF, RejectReason, admit, only_of_tenant
from tracing_core.store.blocks.resources import _known

KEY = "tempotrace.tenant"
NAMES = ("alpha", "beta", "", "alph", "alphaa", "álpha", "a" * 200)


def request(*tenants: str | None) -> ExportTraceServiceRequest:
    message = ExportTraceServiceRequest()
    for number, tenant in enumerate(tenants):
        group = message.resource_spans.add()
        group.resource.attributes.add(key="service.name").value.string_value = "trainer"
        if tenant is not None:
            group.resource.attributes.add(key=KEY).value.string_value = tenant
        for part in (1, 2):
            group.scope_spans.add().spans.add(
                trace_id=b"t" * 16, span_id=bytes([number + 1, part]) * 4, name=f"{tenant}"
            )
    return message


def only(message: ExportTraceServiceRequest, tenant: str):
    return only_of_tenant(admit(message.SerializeToString(), CONTENT_TYPE_PROTOBUF), tenant)


def test_own_and_nameless_spans_stay_byte_for_byte() -> None:
    """What names the token's tenant, an empty one or none is kept as it came."""
    message = request("alpha", None, "", "alpha")
    found = only(message, "alpha")
    assert found.body == message.SerializeToString()
    assert (found.span_count, found.rejections.total_count) == (8, 0)


def test_another_tenants_spans_are_refused_alone() -> None:
    """Their neighbours stay, in their order; the sender is told the reason and the number."""
    found = only(request("alpha", "beta", None, "gamma"), "alpha")
    kept = ExportTraceServiceRequest.FromString(found.body).resource_spans
    assert list(kept) == [request("alpha", "beta", None).resource_spans[i] for i in (0, 2)]
    assert found.span_count == 4
    assert found.rejections.counts == {RejectReason.OTHER_TENANT: 4}
    assert "names another tenant" in found.rejections.message()


def test_spans_refused_before_are_still_counted() -> None:
    """A bad span and another tenant's are two reasons of one answer."""
    message = request("alpha", "beta")
    message.resource_spans[0].scope_spans[0].spans[0].trace_id = b""
    found = only(message, "alpha")
    assert found.span_count == 1
    assert found.rejections.counts == {
        RejectReason.TRACE_ID_INVALID: 1, RejectReason.OTHER_TENANT: 2,
    }  # fmt: skip


def values() -> st.SearchStrategy[AnyValue]:
    return st.one_of(
        st.sampled_from(NAMES).map(lambda text: AnyValue(string_value=text)),
        st.integers(-(2**63), 2**63 - 1).map(lambda number: AnyValue(int_value=number)),
        st.floats().map(lambda number: AnyValue(double_value=number)),
        st.binary(max_size=9).map(lambda data: AnyValue(bytes_value=data)),
        st.just(AnyValue()),
    )


def pairs() -> st.SearchStrategy[KeyValue]:
    keys = st.sampled_from([KEY, KEY, KEY[:-1], KEY + "x", "", "service.name"])
    return st.builds(lambda key, value: KeyValue(key=key, value=value), keys, values())


@given(st.lists(st.lists(pairs(), max_size=4), min_size=1, max_size=4), st.sampled_from(NAMES))
def test_the_store_would_call_every_span_that_is_kept_its_own(resources, tenant) -> None:
    """Of any attributes, repeated keys and other types included: what is kept has the token's
    tenant in the store's own reading, what is refused another; none is lost."""
    if not tenant:
        return
    message = ExportTraceServiceRequest()
    for number, attributes in enumerate(resources):
        group = message.resource_spans.add(resource=Resource(attributes=attributes))
        group.scope_spans.add().spans.add(trace_id=b"t" * 16, span_id=bytes([number + 1]) * 8)
    found = only(message, tenant)
    kept = ExportTraceServiceRequest.FromString(found.body).resource_spans

    def owner(group) -> str:
        return _known(group.resource.SerializeToString()).tenant.decode() or tenant

    assert {owner(group) for group in kept} <= {tenant}
    others = sum(owner(group) != tenant for group in message.resource_spans)
    assert found.rejections.total_count == others
    assert found.span_count == len(resources) - others == len(kept)
