"""A PostgreSQL server that is reached by TCP, only under TLS and with a password, and whose certificate can be changed.

Its authorities are made here, each for one test. What a client makes of them is the tests' matter.
"""

import datetime as dt
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.services.postgres import Cluster

HOST, ELSEWHERE = "db.ledger.test", "other.ledger.test"
SECRET = "s3cr%65t"
"""The password as a url has it."""

DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """One that signs certificates."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        own = self._begun(self._name, self._key).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        self.certificate = own.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def sign(self, host: str) -> Signed:
        """A certificate for this host."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        begun = self._begun(name, key).add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), False)
        return Signed(
            begun.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return x509.CertificateBuilder(
            self._name, subject, key.public_key(), x509.random_serial_number(), now - DAY, now + DAY
        )


class Encrypted(Cluster):
    """Such a server, with a certificate that this authority has signed for `HOST`."""

    def __init__(self, authority: Authority) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:  # PostgreSQL does not take port 0
            self.port = free.getsockname()[1]
        self._first = authority.sign(HOST)
        super().__init__(["listen_addresses=127.0.0.1"])
        self.ask(f"ALTER ROLE fencepost PASSWORD '{SECRET.replace('%65', 'e')}'")

    def _fill(self) -> None:
        super()._fill()
        rules = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
        (self.data / "pg_hba.conf").write_text(rules, "ascii")
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write("ssl = on\n")
        self._write(self._first)

    def present(self, signed: Signed) -> None:
        """Show this certificate to everybody who connects from now on."""
        self._write(signed)
        self.ask("SELECT pg_reload_conf()")

    def _write(self, signed: Signed) -> None:
        owner = self.data.stat()
        for name, content in (("server.crt", signed.certificate), ("server.key", signed.key)):
            file = self.data / name
            file.write_bytes(content)
            file.chmod(0o600)
            os.chown(file, owner.st_uid, owner.st_gid)

    def trusting(self, root: Path, host: str = HOST) -> str:
        """The url of a client that accepts what the authority in `root` has signed for `host`."""
        place = f"postgresql://fencepost:{SECRET}@{host}:{self.port}/postgres?hostaddr=127.0.0.1"
        return f"{place}&sslmode=verify-full&sslrootcert={root}"
