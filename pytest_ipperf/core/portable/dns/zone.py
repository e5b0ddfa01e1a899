"""Zone of a query load: a text under any name of one domain, and the names that are asked. Travels to hosts.

The text is the payload, of which each answer has all in one TXT record (RFC 1035, section 3.3.14), whatever the IP
version of the path. A wildcard has it (RFC 4592), so that there are as many names as there may be queries.
"""

from __future__ import annotations

import random
import string

DOMAIN = "load.ipperf.test"
"""Domain of all names that a query load asks for."""
WILDCARD = f"*.{DOMAIN}"
LABEL_BYTES = 16
"""Length of the first label of each name, so that all queries have the same size."""
_PRINTABLE = string.ascii_letters + string.digits
_SEED = 1035


def text_of(payload_bytes: int) -> bytes:
    """Return the text of that size, of letters and digits."""
    return "".join(random.Random(_SEED).choices(_PRINTABLE, k=payload_bytes)).encode("ascii")  # noqa: S311 - no secret


def label(run: int, number: int) -> bytes:
    """Return the first label of a query's name; `run` tells the names of one run from those of any other."""
    return b"%08x%08x" % (run & 0xFFFFFFFF, number & 0xFFFFFFFF)


def name_of(first_label: bytes) -> str:
    """Return the name with that first label."""
    return f"{first_label.decode('ascii')}.{DOMAIN}"
