"""DNS messages (RFC 1035): queries, and the judgement of their answers; and the zone of a query load."""

from pytest_ipperf.core.portable.dns.messages import (
    TTL_S,
    TYPE_A,
    TYPE_AAAA,
    TYPE_TXT,
    DnsAnswer,
    answer,
    edns,
    edns_query,
    least_padded,
    query,
    question,
    record_type,
    records_answer,
    text_data,
)

__all__ = [
    "TTL_S",
    "TYPE_A",
    "TYPE_AAAA",
    "TYPE_TXT",
    "DnsAnswer",
    "answer",
    "edns",
    "edns_query",
    "least_padded",
    "query",
    "question",
    "record_type",
    "records_answer",
    "text_data",
]
