"""The guard inside a database, for real on SQLite: with its own table, with a fence in each row, in every paramstyle.

Other databases are spoken to with the same standard statements; none is needed to run this.
"""

import re
import sqlite3
import sys
import types

import pytest

from holdfast.errors import BadRequest, Busy, ConfigError, NotHeld
from holdfast.fencing import SqlFence, StaleToken
from holdfast.fencing.sql import COLUMNS_MAX, NAME_CHARS_MAX, TOKEN_MAX

FENCE = SqlFence()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "shop.db"
    with opened(path) as connection:
        connection.execute(FENCE.create_table)
        connection.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER, fence BIGINT NOT NULL)")
        connection.execute("INSERT INTO stock VALUES ('pen', 100, 0), ('ink', 10, 0)")
    return path


@pytest.fixture
def connection(file):
    return opened(file)


def opened(path):
    return sqlite3.connect(path, timeout=0)


def count_of(connection, item="pen"):
    return connection.execute("SELECT count, fence FROM stock WHERE item = ?", (item,)).fetchone()


# --- its own table ---


def test_the_mark_rises_and_what_is_lower_is_refused(connection):
    for token in (33, 33, 34):
        with connection:
            assert FENCE.check(connection, token, "job") == token
    with pytest.raises(StaleToken) as refused, connection:
        FENCE.check(connection, 33, "job")
    assert (refused.value.token, refused.value.highest, refused.value.key) == (33, 34, "job")
    with connection:
        assert FENCE.check(connection, 1, "another") == 1


def test_a_paused_holder_cannot_write_after_the_next_one(file):
    """A has token 33 and is paused; B gets 34 and sells a pen; A wakes up with the number that it had read before."""
    a, b = opened(file), opened(file)
    with a:
        FENCE.check(a, 33, "stock")
    stale_count = count_of(a)[0]
    with b:
        FENCE.check(b, 34, "stock")
        b.execute("UPDATE stock SET count = 99 WHERE item = 'pen'")

    def late():
        with a:
            FENCE.check(a, 33, "stock")
            a.execute("UPDATE stock SET count = ? WHERE item = 'pen'", (stale_count,))

    with pytest.raises(StaleToken):
        late()
    assert count_of(b)[0] == 99


def test_nobody_gets_past_while_a_transaction_that_has_checked_is_open(file):
    older, newer = opened(file), opened(file)
    FENCE.check(older, 1, "k")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        FENCE.check(newer, 2, "k")
    older.commit()
    newer.rollback()
    with newer:
        assert FENCE.check(newer, 2, "k") == 2


def test_a_check_that_is_rolled_back_has_not_happened(connection):
    FENCE.check(connection, 9, "k")
    connection.rollback()
    with connection:
        assert FENCE.check(connection, 1, "k") == 1


def test_two_first_marks_at_once_leave_one_and_the_other_is_told_to_try_again(connection):
    class Late(sqlite3.Connection):
        """Between its look and its insert, somebody else makes the mark."""

    late = sqlite3.connect(":memory:", factory=Late)
    late.execute(FENCE.create_table)
    # The trigger stands for the other transaction: the row is there when the insert comes.
    late.execute(f"""CREATE TRIGGER other BEFORE INSERT ON {FENCE.table} WHEN NEW.writes = 1
        BEGIN INSERT INTO {FENCE.table} (name, fence, writes) VALUES (NEW.name, 7, 2); END""")
    with pytest.raises(Busy, match="roll back") as told, late:
        FENCE.check(late, 5, "k")
    assert isinstance(told.value.__cause__, sqlite3.IntegrityError)


def test_a_trouble_of_the_database_is_passed_on(tmp_path):
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        FENCE.check(opened(tmp_path / "empty.db"), 1, "k")


def test_an_insert_that_fails_otherwise_is_passed_on(connection):
    connection.execute(f"CREATE TRIGGER no BEFORE INSERT ON {FENCE.table} BEGIN SELECT no_such_function(); END")
    with pytest.raises(sqlite3.OperationalError, match="no_such_function"):
        FENCE.check(connection, 1, "k")


# --- a fence in each row ---


def test_an_update_carries_its_fence_with_it(connection):
    with connection:
        assert FENCE.update(connection, "stock", {"count": 99}, {"item": "pen"}, 33) == 1
    assert count_of(connection) == (99, 33)
    assert count_of(connection, "ink") == (10, 0)


def test_a_stale_update_changes_nothing(file):
    a, b = opened(file), opened(file)
    with b:
        FENCE.update(b, "stock", {"count": 98}, {"item": "pen"}, 34)
    with pytest.raises(StaleToken) as refused, a:
        FENCE.update(a, "stock", {"count": 99}, {"item": "pen"}, 33)
    assert (refused.value.token, refused.value.highest) == (33, 34)
    assert count_of(b) == (98, 34)


def test_an_update_of_many_rows_is_refused_when_one_of_them_is_ahead(connection):
    with connection:
        connection.execute("ALTER TABLE stock ADD shelf INTEGER DEFAULT 1")
        FENCE.update(connection, "stock", {"count": 1}, {"item": "ink"}, 34)
    with pytest.raises(StaleToken), connection:
        FENCE.update(connection, "stock", {"count": 0}, {"shelf": 1}, 33)
    assert (count_of(connection), count_of(connection, "ink")) == ((100, 0), (1, 34))
    with connection:
        assert FENCE.update(connection, "stock", {"count": 0}, {"shelf": 1}, 34) == 2


def test_a_row_that_is_not_there_is_not_a_stale_token(connection):
    with pytest.raises(NotHeld, match="stock has no row with item as given"):
        FENCE.update(connection, "stock", {"count": 1}, {"item": "paper"}, 1)


def test_the_column_may_have_another_name(connection):
    connection.execute("ALTER TABLE stock ADD lock_token BIGINT DEFAULT 0")
    with connection:
        FENCE.update(connection, "main.stock", {"count": 1}, {"item": "pen"}, 5, column="lock_token")
    assert connection.execute("SELECT lock_token FROM stock WHERE item = 'pen'").fetchone() == (5,)


def test_somebody_is_quicker_between_the_look_and_the_update(connection):
    class Quick(sqlite3.Cursor):
        def execute(self, sql, values):
            if sql.startswith("UPDATE"):
                connection.execute("UPDATE stock SET fence = 34")
            return super().execute(sql, values)

    class Driver:
        def cursor(self):
            return Quick(connection)

    with pytest.raises(StaleToken):
        SqlFence(paramstyle="qmark").update(Driver(), "stock", {"count": 1}, {"item": "pen"}, 33)
    assert count_of(connection) == (100, 34)


def test_somebody_is_quicker_with_one_of_the_rows(connection):
    """All of the rows are changed, or the caller hears that it has to roll back."""

    class Quick(sqlite3.Cursor):
        def execute(self, sql, values):
            if sql.startswith("UPDATE"):
                connection.execute("UPDATE stock SET fence = 34 WHERE item = 'ink'")
            return super().execute(sql, values)

    class Driver:
        def cursor(self):
            return Quick(connection)

    connection.execute("ALTER TABLE stock ADD COLUMN shop TEXT DEFAULT 'corner'")
    with pytest.raises(StaleToken), connection:
        SqlFence(paramstyle="qmark").update(Driver(), "stock", {"count": 1}, {"shop": "corner"}, 33)
    assert count_of(connection) == (100, 0)


def test_an_update_may_change_what_its_rows_were_found_by(connection):
    with connection:
        assert FENCE.update(connection, "stock", {"item": "pencil"}, {"item": "pen"}, 5) == 1
    assert count_of(connection, "pencil") == (100, 5)


def test_a_driver_that_counts_changed_rows_is_not_believed(connection):
    """As MySQL does by itself: a row that is found, but stays as it was, counts as 0."""

    class Counting(sqlite3.Cursor):
        rowcount = 0

    class Driver:
        def cursor(self):
            return Counting(connection)

    with pytest.raises(Busy, match="roll back"):
        SqlFence(paramstyle="qmark").update(Driver(), "stock", {"count": 100}, {"item": "pen"}, 5)


# --- what is refused before the database is asked ---


@pytest.mark.parametrize("name", ["", "a b", "x; DROP TABLE stock", 'a"b', "a.b.c.d", "1a", "a" * 64, "tablé"])
def test_a_name_that_is_more_than_a_name_is_refused(connection, name):
    for attempt in (
        lambda: SqlFence(name),
        lambda: FENCE.update(connection, name, {"a": 1}, {"b": 1}, 1),
        lambda: FENCE.update(connection, "t", {name: 1}, {"b": 1}, 1),
        lambda: FENCE.update(connection, "t", {"a": 1}, {name: 1}, 1),
        lambda: FENCE.update(connection, "t", {"a": 1}, {"b": 1}, 1, column=name),
    ):
        with pytest.raises(BadRequest, match="no name of a table or a column"):
            attempt()


@pytest.mark.parametrize(("values", "where"), [({}, {"a": 1}), ({"a": 1}, {}), ({"a": 1}, {"fence": 1})])
def test_an_update_of_nothing_or_of_the_fence_is_refused(connection, values, where):
    with pytest.raises(BadRequest):
        FENCE.update(connection, "stock", values, where, 1)


def test_limits(connection):
    with pytest.raises(BadRequest, match=str(TOKEN_MAX)):
        FENCE.check(connection, TOKEN_MAX + 1, "k")
    with pytest.raises(BadRequest, match=str(NAME_CHARS_MAX)):
        FENCE.check(connection, 1, "k" * (NAME_CHARS_MAX + 1))
    with pytest.raises(BadRequest, match=str(COLUMNS_MAX)):
        FENCE.update(connection, "t", {f"c{n}": n for n in range(COLUMNS_MAX)}, {"item": 1}, 1)
    with connection:
        assert FENCE.check(connection, TOKEN_MAX, "k" * NAME_CHARS_MAX) == TOKEN_MAX


# --- drivers ---

# How statements of each style are turned into the one of SQLite, so that a real database answers.
STYLES = {
    "qmark": lambda sql, values: (sql, values),
    "format": lambda sql, values: (sql.replace("%s", "?"), values),
    "numeric": lambda sql, values: (re.sub(r":\d+", "?", sql), values),
    "named": lambda sql, values: (sql, values),
    "pyformat": lambda sql, values: (re.sub(r"%\((\w+)\)s", r":\1", sql), values),
}


class Driver(types.ModuleType):
    """A driver that is a module, with a connection in a module below it, as many are."""

    def __init__(self, style):
        super().__init__(f"driver_{style}")
        self.paramstyle = style

        class Cursor(sqlite3.Cursor):
            def execute(self, sql, values):
                assert ("?" in sql) == (style == "qmark")
                assert isinstance(values, dict) == (style in {"named", "pyformat"})
                return super().execute(*STYLES[style](sql, values))

        class Connection:
            def __init__(self, real):
                self.real = real

            def cursor(self):
                return self.real.cursor(Cursor)

        Connection.__module__ = f"{self.__name__}.connections"
        self.connect = Connection


@pytest.mark.parametrize("style", STYLES)
def test_every_paramstyle_is_found_out_and_used(connection, monkeypatch, style):
    driver = Driver(style)
    monkeypatch.setitem(sys.modules, driver.__name__, driver)
    wrapped = driver.connect(connection)
    assert FENCE.check(wrapped, 5, "k") == 5
    assert FENCE.check(wrapped, 6, "k") == 6
    with pytest.raises(StaleToken):
        FENCE.check(wrapped, 5, "k")
    assert FENCE.update(wrapped, "stock", {"count": 7, "item": "quill"}, {"item": "pen", "count": 100}, 5) == 1
    assert count_of(connection, "quill") == (7, 5)


def test_a_connection_of_nobody_knows_whom_needs_its_style_said(connection):
    class Wrapped:
        def cursor(self):
            return connection.cursor()

    with pytest.raises(ConfigError, match=r"say it: paramstyle="):
        FENCE.check(Wrapped(), 1, "k")
    assert SqlFence(paramstyle="qmark").check(Wrapped(), 1, "k") == 1
    with pytest.raises(BadRequest, match="paramstyle is one of qmark, format"):
        SqlFence(paramstyle="question")
