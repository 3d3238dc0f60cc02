"""An engine of SQLAlchemy instead of a URL: its pool is left as it was, and its errors mean what the driver's mean."""

from collections.abc import Iterator

import pytest
import sqlalchemy
from sqlalchemy import exc

from holdfast.errors import Forbidden
from holdfast.leases.drivers.engine import EngineDriver, meaning
from holdfast.leases.drivers.port import Times
from holdfast.leases.errors import BadTable, DatabaseUnavailable, StatementRefused
from holdfast.leases.steps import Clash, Statement

SCHEMES = {"mariadb": "mariadb+pymysql", "postgres": "postgresql+psycopg"}


@pytest.fixture(params=["mariadb", "postgres"])
def engine(request: pytest.FixtureRequest) -> Iterator[sqlalchemy.Engine]:
    url = request.getfixturevalue(f"{request.param}_url").replace(request.param, SCHEMES[request.param], 1)
    engine = sqlalchemy.create_engine(url)
    yield engine
    engine.dispose()


def test_a_connection_taken_from_an_engine_leaves_its_pool(engine: sqlalchemy.Engine) -> None:
    connection = EngineDriver(engine).connect(Times())
    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    connection.execute(Statement("SELECT 1"))
    connection.close()
    limit = {"mysql": "SELECT @@innodb_lock_wait_timeout", "mariadb": "SELECT @@innodb_lock_wait_timeout"}
    with engine.connect() as others:
        asked = limit.get(engine.dialect.name, "SELECT current_setting('lock_timeout')")
        assert others.exec_driver_sql(asked).scalar() in (50, "0")


def test_statements_are_transactions_of_their_own(engine: sqlalchemy.Engine) -> None:
    first, second = (EngineDriver(engine).connect(Times()) for _ in range(2))
    first.execute(Statement("CREATE TABLE cluster_locks (k INT PRIMARY KEY)"))
    assert first.execute(Statement("INSERT INTO cluster_locks VALUES (%s)", (1,))).count == 1
    assert second.execute(Statement("SELECT k FROM cluster_locks")).rows == [(1,)]
    with pytest.raises(Clash):
        second.execute(Statement("INSERT INTO cluster_locks VALUES (1)"))
    with pytest.raises(StatementRefused):
        second.execute(Statement("SELEC"))
    with pytest.raises(BadTable):
        second.execute(Statement("SELECT * FROM nothing_there"))
    assert second.execute(Statement("UPDATE cluster_locks SET k = k")).count == 1
    first.close()
    second.close()


def test_who_is_not_let_in_hears_that(engine: sqlalchemy.Engine) -> None:
    wrong = sqlalchemy.create_engine(engine.url.set(password="wrong"))
    with pytest.raises(Forbidden) as refusal:
        EngineDriver(wrong).connect(Times())
    assert "wrong" not in str(refusal.value)


def test_errors_that_are_not_the_drivers_have_a_meaning_too() -> None:
    assert type(meaning(exc.TimeoutError("no connection"), "mysql", "e")) is DatabaseUnavailable
    assert type(meaning(exc.ArgumentError("strange"), "mysql", "e")) is StatementRefused
    gone = exc.DBAPIError("SELECT 1", None, Exception(2006, "gone"), connection_invalidated=True)
    assert type(meaning(gone, "mysql", "e")) is DatabaseUnavailable
