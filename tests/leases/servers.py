"""Real databases for tests: private instances of MariaDB and PostgreSQL, each with a database for the session.

A server that the environment names is used instead of an instance of ours. No expectation lives here.
"""

import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pymysql

READY_S_MAX = 60
DATABASE = f"leases_{os.getpid()}"
TABLES = ("cluster_locks", "holdfast_schema")


class Instance:
    """One server of ours, in a folder of its own, on a port of its own. It dies with the process that started it."""

    def __init__(self, name: str, user: str, script: Callable[[Path, int], str]) -> None:
        self.name = name
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{name}-"))
        how = ["setpriv", "--pdeathsig=KILL"]
        if os.geteuid() == 0:
            account = pwd.getpwnam(user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            how += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [*how, "sh", "-ec", script(self.folder, self.port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )

    def await_answer(self, ask: Callable[[], object], refused: type[Exception]) -> None:
        """Wait until the server answers."""
        until = time.monotonic() + READY_S_MAX
        while True:
            try:
                ask()
            except refused as error:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise AssertionError(f"{self.name} does not come up: {self.log()}") from error
                time.sleep(0.05)
            else:
                return

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-4000:]

    def stop(self, how: signal.Signals) -> None:
        """Stop it, by its own process id, and remove what it wrote."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class MariaDbServer:
    """MariaDB, ours or the one that was named."""

    def __init__(self) -> None:
        self._named = os.environ.get("HOLDFAST_TEST_MARIADB_URL")
        self._instance = None if self._named else Instance("mariadb", "mysql", _mariadb)
        self._url = ""

    @property
    def base(self) -> str:
        """The URL of the server, without a database."""
        if self._instance is None:
            assert self._named is not None
            return self._named.rpartition("/")[0]
        return f"mariadb://tester:secret@127.0.0.1:{self._instance.port}"

    @property
    def port(self) -> int:
        return urlsplit(self.base).port or 3306

    def connect(self, database: str | None = None) -> "pymysql.connections.Connection[pymysql.cursors.Cursor]":
        """Connect as anybody might: with the settings that servers and drivers have by default."""
        parts = urlsplit(self.base)
        return pymysql.connect(
            host=parts.hostname,
            port=self.port,
            user=parts.username or "root",
            password=parts.password or "",
            database=database,
            autocommit=True,
        )

    def clean(self) -> str:
        """Give the URL of our database, which has no tables then."""
        if not self._url:
            if self._instance is not None:
                self._instance.await_answer(lambda: self.connect().close(), pymysql.err.OperationalError)
            with self.connect() as connection, connection.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {DATABASE}")
            self._url = f"{self.base}/{DATABASE}"
        with self.connect(DATABASE) as connection, connection.cursor() as cursor:
            cursor.execute("SET lock_wait_timeout = 10")
            for table in TABLES:
                cursor.execute(f"DROP TABLE IF EXISTS {table}")
        return self._url

    def stop(self) -> None:
        if self._instance is not None:
            self._instance.stop(signal.SIGKILL)
        elif self._url:
            with self.connect() as connection, connection.cursor() as cursor:
                cursor.execute(f"DROP DATABASE {DATABASE}")


class PostgresServer:
    """PostgreSQL, ours or the one that was named."""

    def __init__(self) -> None:
        self._named = os.environ.get("HOLDFAST_TEST_POSTGRES_URL")
        self._instance = None if self._named else Instance("postgres", "postgres", _postgres)
        self._url = ""

    @property
    def base(self) -> str:
        """The URL of the server, without a database."""
        if self._instance is None:
            assert self._named is not None
            return self._named.rpartition("/")[0]
        return f"postgres://postgres:secret@127.0.0.1:{self._instance.port}"

    @property
    def port(self) -> int:
        return urlsplit(self.base).port or 5432

    def connect(self, database: str = "postgres") -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(f"{self.base}/{database}", autocommit=True)

    def clean(self) -> str:
        """Give the URL of our database, which has no tables then."""
        if not self._url:
            if self._instance is not None:
                self._instance.await_answer(lambda: self.connect().close(), psycopg.OperationalError)
            with self.connect() as connection:
                connection.execute(f"CREATE DATABASE {DATABASE}".encode())
            self._url = f"{self.base}/{DATABASE}"
        with self.connect(DATABASE) as connection:
            connection.execute("SET lock_timeout = '10s'")
            connection.execute(f"DROP TABLE IF EXISTS {', '.join(TABLES)}".encode())
        return self._url

    def stop(self) -> None:
        if self._instance is not None:
            self._instance.stop(signal.SIGQUIT)
        elif self._url:
            with self.connect() as connection:
                connection.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)".encode())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def program(name: str, *places: str) -> str:
    """Find a program, also where Debian keeps what is not for everybody's path."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    for place in places:
        found = found or next((str(path) for path in sorted(Path("/").glob(place), reverse=True)), None)
    assert found is not None, f"{name} is not installed: run tools/need.sh mariadbd initdb"
    return shlex.quote(found)


def _mariadb(folder: Path, port: int) -> str:
    install = program("mariadb-install-db")
    server = program("mariadbd")
    where = f"--no-defaults --datadir={folder}/data"
    # What is written need not outlive the test.
    quick = (
        "--innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --innodb-flush-method=nosync "
        "--innodb-buffer-pool-size=32M --innodb-log-file-size=16M --skip-log-bin"
    )
    return f"""
    {install} {where} --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve {quick}
    echo "CREATE USER tester@127.0.0.1 IDENTIFIED BY 'secret';" >init
    echo "GRANT ALL ON *.* TO tester@127.0.0.1 WITH GRANT OPTION;" >>init
    exec {server} {where} {quick} --init-file={folder}/init --skip-name-resolve --bind-address=127.0.0.1 --port={port} \
        --socket={folder}/socket --pid-file={folder}/pid --max-connections=400 --performance-schema=OFF
    """


def _postgres(folder: Path, port: int) -> str:
    here = "usr/lib/postgresql/*/bin"
    init = program("initdb", f"{here}/initdb")
    server = program("postgres", f"{here}/postgres")
    quick = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c shared_buffers=32MB -c wal_level=minimal"
    return f"""
    echo secret >password
    {init} -D {folder}/data -U postgres -E UTF8 --no-locale --no-sync -A scram-sha-256 --pwfile=password
    exec {server} -D {folder}/data {quick} -c max_wal_senders=0 -c max_connections=200 -c port={port} \
        -c listen_addresses=127.0.0.1 -c unix_socket_directories=
    """
