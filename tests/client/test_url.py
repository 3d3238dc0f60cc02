"""URLs name servers in one way only; what is not quite one is refused in words that tell no token."""

import ssl
import zlib

import pytest

from holdfast.client.url import DEFAULT_URL, SERVERS_MAX, VARIABLE, shard_of, targets_of
from holdfast.errors import BadRequest


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    """Keep the environment of whoever runs this out of it."""
    monkeypatch.delenv(VARIABLE, raising=False)


def targets(url=None, auth=None, tls=None):
    return targets_of(url, auth=auth, tls=tls)


def target(url, auth=None, tls=None):
    (one,) = targets(url, auth, tls)
    return one


def refusal(url, auth=None, tls=None):
    with pytest.raises(BadRequest) as raised:
        targets(url, auth, tls)
    return str(raised.value)


# --- which server ---


def test_without_a_url_it_is_the_usual_server():
    assert targets() == targets(DEFAULT_URL)
    assert str(targets()[0].address) == "127.0.0.1:6388"
    assert targets()[0].protocol == "holdfast"


@pytest.mark.parametrize("url", [None, ""])
def test_without_a_url_it_is_the_server_of_the_environment(monkeypatch, url):
    monkeypatch.setenv(VARIABLE, "dflock://locks:7000")
    assert str(target(url).address) == "locks:7000"
    assert target("http://other").protocol == "http"


def test_an_empty_variable_is_none(monkeypatch):
    monkeypatch.setenv(VARIABLE, "")
    assert targets() == targets(DEFAULT_URL)


@pytest.mark.parametrize(
    ("url", "protocol", "scheme", "address"),
    [
        ("holdfast://locks", "holdfast", "holdfast", "locks:6388"),
        ("holdfasts://locks", "holdfast", "holdfasts", "locks:6388"),
        ("dflock://locks", "dflock", "dflock", "locks:6388"),
        ("dflocks://locks:1", "dflock", "dflocks", "locks:1"),
        ("http://locks", "http", "http", "locks:80"),
        ("https://locks/", "http", "https", "locks:443"),
        ("HOLDFAST://Locks:65535", "holdfast", "holdfast", "locks:65535"),
        ("holdfast://[::1]:7", "holdfast", "holdfast", "[::1]:7"),
        ("holdfast://locks.", "holdfast", "holdfast", "locks.:6388"),
        ("holdfast://lock_server", "holdfast", "holdfast", "lock_server:6388"),
        ("  holdfast://locks  ", "holdfast", "holdfast", "locks:6388"),
    ],
)
def test_a_scheme_means_a_protocol_a_port_and_whether_there_is_tls(url, protocol, scheme, address):
    one = target(url)
    assert (one.protocol, one.scheme, str(one.address)) == (protocol, scheme, address)
    assert (one.address.tls is not None) == (scheme == protocol + "s")


def test_a_name_of_any_language_is_spelled_as_resolvers_and_headers_take_it():
    assert target("http://bücher.de").address.host == "xn--bcher-kva.de"
    assert target("http://例え.jp").address.host == "xn--r8jz45g.jp"


def test_several_servers_stand_in_the_order_that_was_said():
    several = targets("dflock://a, dflock://b:1 ,dflocks://c,")
    assert [str(one.address) for one in several] == ["a:6388", "b:1", "c:6388"]
    assert [one.scheme for one in several] == ["dflock", "dflock", "dflocks"]


def test_there_are_only_so_many_servers():
    assert len(targets(",".join(["http://a"] * SERVERS_MAX))) == SERVERS_MAX
    assert "1 to 64 servers, not 65" in refusal(",".join(["http://a"] * 65))
    assert "not 0" in refusal(" , ")


def test_servers_of_two_protocols_do_not_go_together():
    assert "one protocol" in refusal("holdfast://a,dflock://b")


# --- tokens ---


def test_a_token_stands_behind_a_colon_and_may_be_escaped():
    assert target("holdfast://:open-sesame@locks").auth == "open-sesame"
    assert target("holdfast://:a%2Fb%40c%3A%2C%C3%A4@locks").auth == "a/b@c:,ä"
    assert target("holdfast://:a@b@locks").auth == "a@b"


def test_a_token_of_a_url_goes_before_the_one_for_all():
    several = targets("dflock://:mine@a,dflock://b,dflock://:@c", auth="ours")
    assert [one.auth for one in several] == ["mine", "ours", "ours"]
    assert target("dflock://a").auth is None


@pytest.mark.parametrize("auth", ["", "a\nb", "a\rb"])
def test_a_token_that_no_server_can_have_is_refused(auth):
    assert "one line of text" in refusal("holdfast://a", auth=auth)


def test_a_token_that_is_no_text_is_refused():
    assert "UTF-8" in refusal("holdfast://a", auth="\udcff")
    assert "UTF-8" in refusal("holdfast://:%ff@a")
    assert "one line of text" in refusal("holdfast://:a%0Ab@a")


@pytest.mark.parametrize(
    "url",
    [
        "holdfast://:se/cret@host",
        "holdfast://:se?cret@host",
        "holdfast://:se#cret@host",
        "holdfast://:1/secret@host",
        "holdfast://:secret,x@host",
        "holdfast://:x,secret@host",
        "holdfast://secret@host",
        "holdfast://secret:@host",
        "holdfast://:secret@host:port",
        "holdfast://:secret@host:99999",
        "holdfast://:secret@host:0",
        "holdfast://:secret@host/path",
        "holdfast://:secret@host?x",
        "holdfast://:secret@",
        "holdfast://:secret@a..b",
        "holdfast://:secret@[::1",
        "nothing://:secret@host",
        ":secret@host",
        "holdfast://:secret",
        "holdfast://:se cret%ff@host",
        "holdfast://:secret%0A@host",
    ],
)
def test_no_refusal_shows_a_token(url):
    assert "cret" not in refusal(url)


# --- what is no URL of ours ---


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("locks:6388", "begins with none of holdfast://"),
        ("locks", "begins with none of"),
        ("127.0.0.1:6388", "begins with none of"),
        ("ftp://locks", "ftp://locks begins with none of"),
        ("holdfast:locks", "names no host"),
        ("holdfast://", "names no host"),
        ("holdfast://:6388", "names no host"),
        ("holdfast://locks:0", "port 0"),
        ("holdfast://locks:65536", "a port from 1 to 65535"),
        ("holdfast://locks:x", "a port from 1 to 65535"),
        ("holdfast://[::1", "is no URL"),
        ("http://locks/v1", "something behind the host"),
        ("http://locks?a=b", "something behind the host"),
        ("http://locks#a", "something behind the host"),
        ("holdfast://me@locks", "no user names"),
        ("holdfast://a..b", "no name"),
        ("holdfast://" + "a" * 64, "no name"),
        ("holdfast://a b", "no name"),
        ("holdfast://a\0b", "no name"),
        ("holdfast://a,locks", "locks begins with none of"),
    ],
)
def test_what_is_no_url_of_ours_is_refused_and_told_why(url, words):
    assert words in refusal(url)


# --- TLS ---


def test_a_context_for_tls_is_for_all_servers_under_tls():
    context = ssl.create_default_context()
    several = targets("https://a,https://b", tls=context)
    assert [one.address.tls for one in several] == [context, context]


def test_without_a_context_certificates_are_checked():
    context = target("holdfasts://a").address.tls
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_a_context_for_a_server_without_tls_is_a_mistake():
    assert "begin it holdfasts://" in refusal("holdfast://a", tls=ssl.create_default_context())


# --- which of several ---


def test_a_key_belongs_to_the_server_that_every_client_of_dflockd_asks():
    # CRC-32 (IEEE) of the key in UTF-8, modulo the number of servers: specs of dflockd's clients.
    assert zlib.crc32(b"123456789") == 0xCBF43926
    assert shard_of("123456789", range(10)) == 0xCBF43926 % 10
    assert [shard_of(key, range(3)) for key in ("job", "pool", "report", "ä", "")] == [
        zlib.crc32(key) % 3 for key in (b"job", b"pool", b"report", b"\xc3\xa4", b"")
    ]


def test_all_servers_get_keys():
    assert {shard_of(f"key-{number}", range(5)) for number in range(100)} == set(range(5))


def test_one_server_has_all_keys():
    assert shard_of("anything", [object()]) == 0
