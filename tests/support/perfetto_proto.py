# SPDX-License-Identifier: Apache-2.0
"""Perfetto's trace messages for Google's protobuf library, as far as tests look at them.

Names and numbers are those of perfetto's `protos/perfetto/trace/*.proto` (checked against the
`perfetto` package 0.59.1). The product writes the wire format itself, so this is the other side.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_F = descriptor_pb2.FieldDescriptorProto
_MESSAGES = {
    "Trace": [("packet", 1, "TracePacket", True)],
    "TracePacket": [
        ("timestamp", 8, _F.TYPE_UINT64, False),
        ("clock_snapshot", 6, "ClockSnapshot", False),
        ("trusted_packet_sequence_id", 10, _F.TYPE_UINT32, False),
        ("track_event", 11, "TrackEvent", False),
        ("sequence_flags", 13, _F.TYPE_UINT32, False),
        ("track_descriptor", 60, "TrackDescriptor", False),
    ],
    "ClockSnapshot": [
        ("clocks", 1, "Clock", True),
        ("primary_trace_clock", 2, _F.TYPE_UINT32, False),
    ],
    "Clock": [
        ("clock_id", 1, _F.TYPE_UINT32, False),
        ("timestamp", 2, _F.TYPE_UINT64, False),
    ],
    "TrackDescriptor": [
        ("uuid", 1, _F.TYPE_UINT64, False),
        ("name", 2, _F.TYPE_STRING, False),
        ("process", 3, "ProcessDescriptor", False),
        ("thread", 4, "ThreadDescriptor", False),
        ("parent_uuid", 5, _F.TYPE_UINT64, False),
    ],
    "ProcessDescriptor": [
        ("pid", 1, _F.TYPE_INT32, False),
        ("process_name", 6, _F.TYPE_STRING, False),
    ],
    "ThreadDescriptor": [
        ("pid", 1, _F.TYPE_INT32, False),
        ("tid", 2, _F.TYPE_INT64, False),
        ("thread_name", 5, _F.TYPE_STRING, False),
    ],
    "TrackEvent": [
        ("debug_annotations", 4, "DebugAnnotation", True),
        ("type", 9, _F.TYPE_INT32, False),
        ("track_uuid", 11, _F.TYPE_UINT64, False),
        ("categories", 22, _F.TYPE_STRING, True),
        ("name", 23, _F.TYPE_STRING, False),
        ("flow_ids", 47, _F.TYPE_FIXED64, True),
        ("terminating_flow_ids", 48, _F.TYPE_FIXED64, True),
    ],
    "DebugAnnotation": [
        ("bool_value", 2, _F.TYPE_BOOL, False),
        ("int_value", 4, _F.TYPE_INT64, False),
        ("double_value", 5, _F.TYPE_DOUBLE, False),
        ("string_value", 6, _F.TYPE_STRING, False),
        ("name", 10, _F.TYPE_STRING, False),
        ("dict_entries", 11, "DebugAnnotation", True),
        ("array_values", 12, "DebugAnnotation", True),
    ],
}


def _trace_class():
    file = descriptor_pb2.FileDescriptorProto(name="perfetto.proto", package="perfetto")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            message.field.add(
                name=field,
                number=number,
                label=_F.LABEL_REPEATED if repeated else _F.LABEL_OPTIONAL,
                type=_F.TYPE_MESSAGE if isinstance(kind, str) else kind,
                type_name=f".perfetto.{kind}" if isinstance(kind, str) else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perfetto.Trace"))


PerfettoTrace = _trace_class()
