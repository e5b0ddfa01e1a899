"""SIPp as a sender of RTP: the scenario of a caller who sends G.729 for some seconds, and the files that it needs."""

from __future__ import annotations

from pathlib import Path

SPEECH_BYTES, PACKETS_S = 20, 50
"""Speech in a packet of SIPp's stream of payload type 18, and its packets in a second."""
RTP_PORT = 26000
_FIELDS = """Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: sipp <sip:sipp@[local_ip]:[local_port]>;tag=[pid]SIPpTag00[call_number]
To: sut <sip:service@[remote_ip]:[remote_port]>{tag}
Call-ID: [call_id]
CSeq: {number} {method}
Contact: sip:sipp@[local_ip]:[local_port]
Max-Forwards: 70
"""
_SDP = """Content-Type: application/sdp
Content-Length: [len]

v=0
o=user1 53655765 2353687637 IN IP[local_ip_type] [local_ip]
s=-
c=IN IP[media_ip_type] [media_ip]
t=0 0
m=audio [rtpstream_audio_port] RTP/AVP 18
a=rtpmap:18 G729/8000
"""


def _request(method: str, number: int, *, tag: str = "", body: str = "Content-Length: 0\n\n") -> str:
    fields = _FIELDS.format(tag=tag, number=number, method=method)
    return f"<send><![CDATA[\n{method} sip:service@[remote_ip]:[remote_port] SIP/2.0\n{fields}{body}]]></send>\n"


def scenario(folder: str, seconds: float) -> str:
    """Write the scenario of a call with that many seconds of RTP, and its speech; return the scenario's path."""
    speech, path = Path(folder, "speech.raw"), Path(folder, "caller.xml")
    speech.write_bytes(bytes(SPEECH_BYTES * PACKETS_S))
    answered, tag = '<recv response="200"/>\n', "[peer_tag_param]"
    path.write_text(
        '<?xml version="1.0" encoding="ISO-8859-1"?>\n<scenario name="caller">\n'
        + _request("INVITE", 1, body=_SDP)
        + '<recv response="100" optional="true"/>\n<recv response="180" optional="true"/>\n'
        + answered
        + _request("ACK", 1, tag=tag)
        + f'<nop><action><exec rtp_stream="{speech},-1,18"/></action></nop>\n'
        + f'<pause milliseconds="{1000 * seconds:.0f}"/>\n'
        + _request("BYE", 2, tag=tag)
        + answered
        + "</scenario>\n",
        encoding="ascii",
    )
    return str(path)
