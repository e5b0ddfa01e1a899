"""Server state: accounts, and the page, file or message that transactions move. Travels to hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pytest_ipperf.core.portable.errors import UsageError

LARGE_FILE = "large.bin"
"""Name of the file of a server state with `file_bytes`."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """Content of a server, the same for all numbers of connections, so that it is written once.

    `content` is the page, file or message that each transaction moves; empty: the protocol's own, of the payload's
    size. There are `users` accounts with one `password` for all; each has a mailbox of its own, in which a copy of
    `content` comes first and `messages` follow. `pages` are further pages or files, by their paths (`/other.html`).
    `addresses` are those of the server's name in the zone, which a client has to find; the agent fills them in. With
    `file_bytes` there is a file of that size beside the content, `FileContent` under the name `LARGE_FILE`. `texts` are
    TXT records of a name server, by their names, of which a first label `*` stands for any (RFC 4592).
    """

    content: bytes = b""
    users: int = 0
    password: str = field(default="", repr=False)  # pytest would show it with a test's variables
    messages: tuple[bytes, ...] = ()
    pages: Mapping[str, bytes] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()
    file_bytes: int = 0
    texts: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in self.pages:
            if not path.startswith("/") or path.endswith("/") or {"", ".", ".."} & set(path[1:].split("/")):
                raise UsageError(f"page {path!r} is not a path such as /other.html")

    def user(self, index: int) -> str:
        """Return the account of a connection; connections use different ones while there are enough."""
        return f"user{index % self.users}"

    def check_accounts(self, protocol: str) -> None:
        """Raise UsageError if a protocol that logs in finds no accounts, or no password that can be sent as a line."""
        if not self.users:
            raise UsageError(
                f"{protocol} logs in, and server_state has no users; give it some, and a password, as in "
                "ServerState(users=500, password='secret')"
            )
        if not self.password or not self.password.isascii() or not self.password.isprintable():
            raise UsageError(
                f"{protocol} logs in, and the password of server_state is not a line of printable ASCII characters "
                "such as 'secret'"
            )

    @property
    def names(self) -> list[str]:
        """Return the names of all accounts."""
        return [self.user(index) for index in range(self.users)]

    @property
    def digest_without_password(self) -> str:
        """Return the digest of everything but the password, which every session makes anew."""
        return replace(self, password="").digest

    @property
    def digest(self) -> str:
        """Return a digest that is different for states that differ in anything."""
        import hashlib  # noqa: PLC0415 - OpenSSL with it, and few states have a digest

        hasher = hashlib.sha256()
        for part in (self.content, str(self.users).encode(), self.password.encode(), *self.messages):
            hasher.update(b"%d " % len(part) + part)
        for path, page in sorted(self.pages.items()):
            hasher.update(f"{path} {len(page)} ".encode() + page)
        for address in self.addresses:
            hasher.update(f"at {address} ".encode())
        if self.file_bytes:
            hasher.update(f"file {self.file_bytes} ".encode())
        for name, text in sorted(self.texts.items()):
            hasher.update(f"text {name} {len(text)} ".encode() + text)
        return hasher.hexdigest()[:16]
