"""URLs of databases: what is read from them, what is refused, and that no password is ever shown."""

import ssl

import pytest

from holdfast.errors import BadRequest
from holdfast.leases.url import path_of, place_of, without_password


def test_all_parts_of_a_url_are_read() -> None:
    place = place_of("mariadb://me:p%40ss%2F@db.example:3307/locks?tls=on&socket=/run/db")
    assert (place.kind, place.host, place.port, place.user, place.password) == (
        "mariadb",
        "db.example",
        3307,
        "me",
        "p@ss/",
    )
    assert (place.database, place.tls, place.socket) == ("locks", "on", "/run/db")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mysql://h/d", "mariadb://h:3306/d"),
        ("postgresql://me:x@[::1]/d", "postgres://me@[::1]:5432/d"),
        ("postgres:///d?socket=/run/postgresql", "postgres:///run/postgresql/d"),
    ],
)
def test_what_is_not_said_is_as_usual_and_the_password_is_not_shown(url: str, shown: str) -> None:
    assert place_of(url).shown == shown


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mariadb://me:secret@h", "has to name a database"),
        ("mariadb://me:secret@h/a/b", "has to name a database"),
        ("mariadb://me:secret@/d", "names no host"),
        ("mariadb://me:secret@h:port/d", "is no URL"),
        ("mariadb://me:sec/ret@h/d", "is no URL"),
        ("mariadb://me:secret@h/d?charset=latin1", "has charset behind the"),
        ("mariadb://me:secret@h/d?tls=maybe", "may be off, on, verify"),
        ("oracle://me:secret@h/d", "begins with none of"),
        ("leases.db", "begins with none of"),
    ],
)
def test_a_url_that_cannot_be_is_refused_without_showing_the_password(url: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why) as refusal:
        place_of(url)
    assert "secret" not in str(refusal.value)
    assert "sec/ret" not in str(refusal.value)


def test_a_file_is_named_by_its_path() -> None:
    assert path_of("sqlite:/var/lib/leases.db") == "/var/lib/leases.db"
    assert path_of("sqlite:leases.db") == "leases.db"
    for url in ("sqlite:", "sqlite:///leases.db", "sqlite::memory:"):
        with pytest.raises(BadRequest, match="sqlite:PATH"):
            path_of(url)


def test_tls_is_off_unless_asked_for_and_a_ca_asks_for_all_of_it() -> None:
    assert place_of("mariadb://h/d").context() is None
    assert place_of("mariadb://h/d?tls=off").context() is None
    loose = place_of("mariadb://h/d?tls=on").context()
    assert loose is not None
    assert (loose.check_hostname, loose.verify_mode) == (False, ssl.CERT_NONE)
    strict = place_of("mariadb://h/d?tls=verify").context()
    assert strict is not None
    assert (strict.check_hostname, strict.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert place_of("mariadb://h/d?ca=/ca.pem").tls == "verify"


def test_what_was_no_url_is_shown_as_it_is() -> None:
    assert without_password("leases.db") == "leases.db"
    assert without_password("x://a:b@c@d/e") == "x://...@d/e"
