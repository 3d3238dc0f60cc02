"""Where a server of leases over gRPC is: what a URL may say, and that no refusal shows its token."""

from pathlib import Path

import pytest

from holdfast.errors import BadRequest, ConfigError
from holdfast.leases.grpc_url import grpc_place_of, read_file
from holdfast.wire.grpc_leases import ORIGINAL_SERVICE, SERVICE


def test_a_host_and_a_port_are_enough() -> None:
    place = grpc_place_of("grpc://db.example:13000")
    assert (place.target, place.token, place.secure, place.service) == ("db.example:13000", None, False, SERVICE)
    assert place.is_ours
    assert place.shown == "grpc://db.example:13000"
    assert grpc_place_of("grpc://[::1]:5").target == "[::1]:5"


@pytest.mark.parametrize("user", ["a%2Fb", ":a%2Fb", "a%2Fb:"])
def test_a_token_stands_before_the_host(user: str) -> None:
    place = grpc_place_of(f"grpc://{user}@h:1")
    assert place.token == "a/b"
    assert "a/b" not in place.shown


def test_tls_and_another_service_are_options() -> None:
    place = grpc_place_of("grpcs://h:1?ca=/a.pem&cert=/c.pem&key=/c.key&service=shakenfist")
    assert (place.secure, place.ca, place.cert, place.key) == (True, "/a.pem", "/c.pem", "/c.key")
    assert (place.service, place.is_ours, place.shown) == (ORIGINAL_SERVICE, False, "grpcs://h:1")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("grpc://secret@h", "host and a port"),
        ("grpc://secret@:5", "host and a port"),
        ("grpc://secret@h:0", "host and a port"),
        ("grpc://secret@h:99999", "no URL"),
        ("grpc://secret@h:x", "no URL"),
        ("http://secret@h:1", "begins with none"),
        ("grpc://secret@h:1/path", "behind the port"),
        ("grpc://secret@h:1#x", "behind the port"),
        ("grpc://secret@h:1?x=1", "x behind the"),
        ("grpc://secret@h:1?ca=/x", "ca behind the"),
        ("grpc://secret@h:1?x", "no URL"),
        ("grpcs://secret@h:1?cert=/x", "come together"),
        ("grpc://secret@h:1?service=other", "service=other"),
        ("grpc://user:secret@h:1", "alone"),
        ("grpc://secret%0A@h:1", "ASCII"),
        ("grpc://secret%20x@h:1", "ASCII"),
        ("grpc://s%C3%A4cret@h:1", "ASCII"),
    ],
)
def test_what_means_nothing_is_refused_without_telling_the_token(url: str, why: str) -> None:
    with pytest.raises(BadRequest) as refused:
        grpc_place_of(url)
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert read_file("ca", None) is None
    (tmp_path / "ca.pem").write_bytes(b"x")
    assert read_file("ca", f"{tmp_path}/ca.pem") == b"x"
    with pytest.raises(ConfigError, match=r"ca: cannot read .*no.pem"):
        read_file("ca", f"{tmp_path}/no.pem")
