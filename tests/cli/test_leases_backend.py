"""The option `--backend`, and how rows are shown, whatever stands in them."""

import pytest

from holdfast.cli.leases_backend import owner_of, row_of, spelled, url_of
from holdfast.errors import SPELLINGS
from holdfast.leases.words import Row
from tests.cli.leases_stage import holdfast, shown

SECRET = "hunter2"
COMMANDS = [
    ("leases", "init"),
    ("leases", "list"),
    ("leases", "watch"),
    ("leases", "break", "cluster/"),
    ("leases", "clear-stale"),
    ("leases", "shed"),
    ("admin", "lock", "list"),
]


def row(**changed):
    told = {
        "key": b"cluster/",
        "holder": {"operation": "Cluster maintenance"},
        "node": "sf-7",
        "pid": 26407,
        "process": "",
        "lock_id": "x",
        "fence": 3,
        "age_us": 1_500_000,
        "left_us": 59_000_000,
    }
    return Row(**(told | changed))


def test_the_option_comes_before_the_environment(database, tmp_path):
    other = f"sqlite:{tmp_path}/other.db"
    shown("leases", "init", "--backend", other, backend=database.url)
    database.take("cluster/")
    assert len(shown("leases", "list", "--simple", backend=database.url)) == 2
    assert len(shown("leases", "list", "--simple", "--backend", other, backend=database.url)) == 1
    assert url_of("sqlite:x") == "sqlite:x"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_says_which_database_is_not_there_and_never_the_password(command):
    for url, code in [
        (f"mariadb://user:{SECRET}@127.0.0.1:1/locks", "unavailable"),
        (f"postgres://user:{SECRET}@127.0.0.1:1/locks", "unavailable"),
        (f"mariadb://user:{SECRET}@127.0.0.1:port/locks", "bad_request"),
        (f"oracle://user:{SECRET}@127.0.0.1/locks", "bad_request"),
        (f"mariadb://user:{SECRET}@127.0.0.1", "bad_request"),
        (f"grpc://user:{SECRET}@127.0.0.1:1", "bad_request"),
    ]:
        result = holdfast(*command, backend=url)
        assert result.exit_code == SPELLINGS[code].exit_code
        assert result.stderr.startswith("holdfast: ")
        assert len(result.stderr.splitlines()) == 1
        assert SECRET not in result.output


@pytest.mark.parametrize("command", COMMANDS[1:], ids=" ".join)
def test_a_database_without_the_table_is_told_how_to_get_one(command, tmp_path):
    result = holdfast(*command, backend=f"sqlite:{tmp_path}/empty.db")
    assert result.exit_code == SPELLINGS["bad_request"].exit_code
    assert "run `holdfast leases init`" in result.stderr


def test_a_row_for_listings_has_what_is_known():
    assert row_of(row()) == {
        "lock": "cluster/",
        "pid": 26407,
        "node": "sf-7",
        "operation": "Cluster maintenance",
        "fence": 3,
        "age_s": 1.5,
        "left_s": 59.0,
        "state": "held",
        "lock_id": "x",
    }
    lapsed = row_of(row(left_us=-5, holder={}))
    assert (lapsed["left_s"], lapsed["state"], lapsed["operation"]) == (0.0, "lapsed", None)


def test_an_owner_is_named_in_one_line():
    assert owner_of(row()) == "sf-7 pid 26407 (Cluster maintenance)"
    assert owner_of(row(holder={}, node="x\ny")) == "x\\ny pid 26407"


def test_a_key_that_is_no_text_comes_back_as_it_was():
    for key in (b"t/\xff\x00", "t/schön".encode()):
        assert spelled(key).encode("utf-8", "surrogateescape") == key
