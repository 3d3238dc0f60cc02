"""Certificates for tests: an authority, and what it signs, made with the openssl command.

Nothing here is trusted by anybody but the test that made it.
"""

import ssl
import subprocess
from pathlib import Path

CURVE = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)


class Authority:
    """Signs certificates; its files lie in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.certificate = folder / "authority.pem"
        self._key = folder / "authority.key"
        files = ("-keyout", str(self._key), "-out", str(self.certificate))
        openssl("req", "-x509", "-nodes", "-newkey", *CURVE, "-days", "2", "-subj", "/CN=Authority", *files)

    def sign(self, name: str) -> tuple[Path, Path]:
        """Make a certificate for somebody at 127.0.0.1; answer it and its key."""
        key, request, certificate, extra = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem", "ext"))
        extra.write_text("subjectAltName=IP:127.0.0.1\n")
        files = ("-keyout", str(key), "-out", str(request))
        openssl("req", "-nodes", "-newkey", *CURVE, "-subj", f"/CN={name}", *files)
        authority = ("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial")
        openssl(
            *("x509", "-req", "-in", str(request), "-days", "2", *authority),
            *("-extfile", str(extra), "-out", str(certificate)),
        )
        return certificate, key

    def trust(self, *, showing: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """Make the context of a client that trusts this authority, and may show a certificate of its own."""
        context = ssl.create_default_context(cafile=self.certificate)
        if showing is not None:
            context.load_cert_chain(*showing)
        return context
