"""The line door behind TLS: who gets in and who does not, and that nothing else about the door changes.

The certificates are real ones, made for this run.
"""

import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest

from holdfast.testing.line_peer import LinePeer
from holdfast.testing.process import PROGRAMS, ServerProcess, command, environment
from tests.certificates import Authority, openssl
from tests.conftest import Start

WAIT_S_MAX = 20
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]

both_loops = pytest.mark.parametrize("loop", PROGRAMS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Make an authority that nobody here trusts."""
    return Authority(tmp_path_factory.mktemp("tls") / "theirs")


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> tuple[str, ...]:
    """Sign the server's certificate; answer the flags for it."""
    certificate, key = authority.sign("server")
    return ("--tls-cert", str(certificate), "--tls-key", str(key))


def client_versions(context: ssl.SSLContext, version: ssl.TLSVersion) -> ssl.SSLContext:
    context.minimum_version = context.maximum_version = version
    return context


def is_served(server: ServerProcess, context: ssl.SSLContext) -> bool:
    """Say whether a client gets its answer; with TLS 1.3 it may learn only then that it was refused."""
    try:
        with LinePeer(server.port, tls=context) as peer:
            return peer.ask("ping") == "ok"
    except (ssl.SSLError, BrokenPipeError, ConnectionResetError):
        return False


@both_loops
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_tls_1_2_and_1_3_are_spoken(
    start: Start, authority: Authority, certificate: tuple[str, ...], version: ssl.TLSVersion, loop: str
) -> None:
    server = start("serve", *certificate, loop=loop)
    with LinePeer(server.port, tls=client_versions(authority.trust(), version)) as peer:
        assert isinstance(peer.socket, ssl.SSLSocket)
        assert peer.socket.version() == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[version.name]
        assert peer.ask("l", "job", "0 30").startswith("ok ")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_older_versions_are_refused(start: Start, authority: Authority, certificate: tuple[str, ...]) -> None:
    server = start("serve", *certificate)
    context = authority.trust()
    context.minimum_version = ssl.TLSVersion.TLSv1_1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")  # else it would be the client that refuses
    with pytest.raises(ssl.SSLError, match=r"alert|EOF"):
        LinePeer(server.port, tls=context)


@both_loops
def test_a_client_that_trusts_somebody_else_does_not_come_in(
    start: Start, authority: Authority, stranger: Authority, certificate: tuple[str, ...], loop: str
) -> None:
    server = start("serve", *certificate, loop=loop)
    with pytest.raises(ssl.SSLCertVerificationError):
        LinePeer(server.port, tls=stranger.trust())
    assert is_served(server, authority.trust())
    assert "bug" not in server.log


@both_loops
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_clients_may_have_to_show_a_certificate(
    start: Start,
    authority: Authority,
    stranger: Authority,
    certificate: tuple[str, ...],
    version: ssl.TLSVersion,
    loop: str,
) -> None:
    server = start("serve", *certificate, "--tls-client-ca", str(authority.certificate), loop=loop)
    ours, theirs = authority.sign("client"), stranger.sign("client")
    assert is_served(server, client_versions(authority.trust(showing=ours), version))
    assert not is_served(server, client_versions(authority.trust(showing=theirs), version))
    assert not is_served(server, client_versions(authority.trust(), version))
    assert is_served(server, client_versions(authority.trust(showing=ours), version))
    assert "bug" not in server.log


@both_loops
def test_plain_text_gets_no_answer_of_the_protocol(start: Start, certificate: tuple[str, ...], loop: str) -> None:
    server = start("serve", *certificate, loop=loop)
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S_MAX) as peer:
        peer.sendall(b"ping\n_\n_\n" * 100)
        heard = b""
        try:
            while data := peer.recv(4096):
                heard += data
        except ConnectionResetError:
            heard += b""  # closed with bytes unread
        assert b"ok" not in heard


@both_loops
def test_a_handshake_that_never_comes_is_given_up_and_counted_out(
    start: Start, authority: Authority, certificate: tuple[str, ...], loop: str
) -> None:
    server = start("serve", *certificate, "--line-read-timeout", "1", "--connections-max", "1", loop=loop)
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S_MAX) as silent:
        assert silent.recv(4096) == b""
    limit = time.monotonic() + WAIT_S_MAX
    while not is_served(server, authority.trust()):
        assert time.monotonic() < limit


@both_loops
def test_a_blocked_caller_that_leaves_gives_up_its_place_behind_tls_too(
    start: Start, authority: Authority, certificate: tuple[str, ...], loop: str
) -> None:
    server = start("serve", *certificate, "--waiters-max", "1", loop=loop)
    context = authority.trust()
    with LinePeer(server.port, tls=context) as a, LinePeer(server.port, tls=context) as b:
        held = a.ask("l", "job", "0 30").split()[1]
        b.say("l", "job", "20")
        while a.ask("l", "job", "0") != "error_max_waiters":
            assert server.process.poll() is None
        b.close()
        while a.ask("l", "job", "0") != "timeout":
            assert server.process.poll() is None
        assert a.ask("r", "job", held) == "ok"


@both_loops
def test_a_peer_that_reads_late_gets_every_answer_behind_tls_too(
    start: Start, authority: Authority, certificate: tuple[str, ...], loop: str
) -> None:
    server = start("serve", *certificate, loop=loop)
    context = authority.trust()
    with LinePeer(server.port, tls=context) as late, LinePeer(server.port, tls=context) as other:
        for number in range(400):
            assert late.ask("l", f"{number:0250d}", "0 300").startswith("ok ")
        for _ in range(100):
            late.say("stats")
            assert other.ask("ping") == "ok"
        late.say("ping")
        assert all(late.hear().startswith('ok {"connections":2,') for _ in range(100))
        assert late.hear() == "ok"


@both_loops
def test_a_server_behind_tls_drains_in_the_same_way(
    start: Start, authority: Authority, certificate: tuple[str, ...], loop: str
) -> None:
    server = start("serve", *certificate, loop=loop)
    context = authority.trust()
    with LinePeer(server.port, tls=context) as a, LinePeer(server.port, tls=context) as b:
        assert a.ask("l", "job", "0 30").startswith("ok ")
        b.say("l", "job", "20")
        server.stop()
        assert b.hear() == "error"
        assert (a.ask("ping"), a.hear()) == ("error_draining", "")
        assert (b.ask("ping"), b.hear()) == ("error_draining", "")
        a.close()
        b.close()
        assert server.wait() == 0
    assert "bug" not in server.log


@pytest.mark.parametrize(
    "fault", ["no such file", "not a certificate", "another key", "a key with a password", "no authority"]
)
def test_files_that_do_not_do_are_exit_code_1(tmp_path: Path, authority: Authority, fault: str) -> None:
    certificate, key = authority.sign("faulty")
    arguments = []
    match fault:
        case "no such file":
            certificate = tmp_path / "nothing"
        case "not a certificate":
            certificate = tmp_path / "empty"
            certificate.touch()
        case "another key":
            _, key = authority.sign("another")
        case "a key with a password":
            plain, key = key, tmp_path / "locked"
            openssl("pkey", "-in", str(plain), "-aes256", "-passout", "pass:open sesame", "-out", str(key))
        case "no authority":
            arguments = ["--tls-client-ca", str(key)]
    done = subprocess.run(
        command("serve", "--line", "127.0.0.1:0", "--tls-cert", str(certificate), "--tls-key", str(key), *arguments),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S_MAX,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("holdfast: TLS: ")
    assert "Traceback" not in done.stderr
