"""What a session is told, and what the errors of PostgreSQL mean: what may come right is never called hopeless."""

import pytest

from holdfast.errors import Forbidden
from holdfast.leases.drivers.port import Times, Undone
from holdfast.leases.drivers.postgres_session import begin, meaning
from holdfast.leases.errors import BadTable, DatabaseUnavailable, StatementRefused
from holdfast.leases.steps import Clash, Result, Statement, run


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        *((state, Undone) for state in ("40001", "40P01", "55P03")),
        *((state, DatabaseUnavailable) for state in ("08006", "53300", "57014", "57P01", "58030", "25006", None)),
        *((state, Forbidden) for state in ("28P01", "42501")),
        *((state, BadTable) for state in ("3D000", "42P01", "42703")),
        *((state, StatementRefused) for state in ("42601", "22001", "")),
        *((state, Clash) for state in ("23505", "42P07")),
    ],
)
def test_each_state_means_one_thing(state: str | None, kind: type[Exception]) -> None:
    error = meaning(state, "said\n", "postgres://h/d")
    assert type(error) is kind
    assert "said" in str(error)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('FATAL:  password authentication failed for user "x"', Forbidden),
        ('FATAL:  no pg_hba.conf entry for host "1.2.3.4"', Forbidden),
        ('FATAL:  database "x" does not exist', BadTable),
        ("Connection refused", DatabaseUnavailable),
    ],
)
def test_a_connection_that_is_refused_is_understood_by_its_words(said: str, kind: type[Exception]) -> None:
    assert type(meaning(None, said, "postgres://h/d")) is kind


def test_a_session_has_limits_and_the_time_of_no_place() -> None:
    heard: list[Statement] = []

    def execute(statement: Statement) -> Result:
        heard.append(statement)
        return Result(1)

    assert run(execute, begin(Times(statement_s=7, row_s=3))).name == "postgres"
    assert list(heard[0].values) == ["7s", "3s", "UTC", "read committed"]
