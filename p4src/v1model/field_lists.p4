// SPDX-License-Identifier: Apache-2.0
// Field lists: what a copy of a packet keeps of its metadata.
#ifndef TEMPOTRACE_FIELD_LISTS_P4
#define TEMPOTRACE_FIELD_LISTS_P4

#define FIELD_LIST_REPORT        1   // a clone that becomes a report
#define FIELD_LIST_RECIRCULATED  2   // a report that starts over to be routed

#endif
