"""Private instances of MariaDB and PostgreSQL, as durable as they come, which can be killed and started again.

Each lives in a folder of its own, on a port of its own. What is asked of it is decided elsewhere.
"""

import os
import pwd
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.servers import ServerFailed, free_port

READY_S_MAX = 60.0
DATABASE = "bench"
PASSWORD = "secret"


class Database:
    """One server of ours. It dies with the process that started it."""

    kind = ""
    user = ""  # that it runs as, where it is started by root
    stop_signal = signal.SIGTERM

    def __init__(self, port: int | None = None) -> None:
        self.port = port or free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{self.kind}-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._how = ["setpriv", "--pdeathsig=KILL"]
        if os.geteuid() == 0:
            account = pwd.getpwnam(self.user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._how += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]

    def __enter__(self) -> "Database":
        try:
            self._run(self.installing()).wait()
            self.start()
            self.connect("").close()
            self.create()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Spell where it is, for a lock."""
        return self.url_at(self.port)

    def url_at(self, port: int) -> str:
        """Spell the same behind another port."""
        return f"{self.kind}://{self.account}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}"

    def start(self) -> None:
        """Start it, for the first time or on what it has left, and wait until it answers."""
        self._process = self._run(f"exec {self.serving()}")
        until = time.monotonic() + READY_S_MAX
        while True:
            try:
                self.connect("").close()
            except self.refused as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise ServerFailed(f"{self.kind} does not come up: {self.log()}") from error
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        """Kill it on the spot."""
        assert self._process is not None
        self._process.send_signal(self.stop_signal)
        self._process.wait()

    def close(self) -> None:
        """End it, and remove what it wrote."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        """Give the end of what it has said."""
        return (self.folder / "log").read_text(errors="replace")[-4000:]

    def _run(self, script: str) -> "subprocess.Popen[bytes]":
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*self._how, "sh", "-ec", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )

    # --- what each of them has of its own ---

    account = ""
    refused: type[Exception] = OSError

    def installing(self) -> str:
        """Say how to make its files."""
        raise NotImplementedError

    def serving(self) -> str:
        """Say how to start it."""
        raise NotImplementedError

    def connect(self, database: str = DATABASE) -> Any:
        """Connect by its usual driver."""
        raise NotImplementedError

    def create(self) -> None:
        """Make the database."""
        raise NotImplementedError


class MariaDb(Database):
    """MariaDB with the durability that it has by default: each commit waits for the disk."""

    kind = "mariadb"
    user = "mysql"
    account = "bench"
    stop_signal = signal.SIGKILL

    def __init__(self, port: int | None = None) -> None:
        import pymysql

        super().__init__(port)
        self.refused = pymysql.err.OperationalError

    def installing(self) -> str:
        # Nobody minds if these files have to be made again.
        quick = "--innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --innodb-flush-method=nosync"
        return f"""
        {program("mariadb-install-db")} --no-defaults --datadir={self.folder}/data {quick} \
            --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve --innodb-log-file-size=32M
        echo "CREATE USER IF NOT EXISTS {self.account}@127.0.0.1 IDENTIFIED BY '{PASSWORD}';" >init
        echo "GRANT ALL ON *.* TO {self.account}@127.0.0.1;" >>init
        """

    def serving(self) -> str:
        return (
            f"{program('mariadbd')} --no-defaults --datadir={self.folder}/data --init-file={self.folder}/init "
            f"--skip-name-resolve --bind-address=127.0.0.1 --port={self.port} --socket={self.folder}/socket "
            f"--pid-file={self.folder}/pid --max-connections=400 --innodb-log-file-size=32M"
        )

    def connect(self, database: str = DATABASE) -> Any:
        import pymysql

        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.account,
            password=PASSWORD,
            database=database or None,
            autocommit=True,
        )

    def create(self) -> None:
        with self.connect("") as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {DATABASE}")


class PostgreSql(Database):
    """PostgreSQL with the durability that it has by default."""

    kind = "postgres"
    user = "postgres"
    account = "postgres"
    # A server that is killed leaves its children, which keep the next one from starting.
    stop_signal = signal.SIGQUIT

    def __init__(self, port: int | None = None) -> None:
        import psycopg

        super().__init__(port)
        self.refused = psycopg.OperationalError

    def installing(self) -> str:
        return f"""
        echo {PASSWORD} >password
        {program("initdb")} -D {self.folder}/data -U {self.account} -E UTF8 --no-locale --no-sync \
            -A scram-sha-256 --pwfile=password
        """

    def serving(self) -> str:
        return (
            f"{program('postgres')} -D {self.folder}/data -c max_connections=200 -c port={self.port} "
            f"-c listen_addresses=127.0.0.1 -c unix_socket_directories="
        )

    def connect(self, database: str = DATABASE) -> Any:
        import psycopg

        url = f"postgres://{self.account}:{PASSWORD}@127.0.0.1:{self.port}/{database or 'postgres'}"
        return psycopg.connect(url, autocommit=True, connect_timeout=5)

    def create(self) -> None:
        with self.connect("") as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")


KINDS: dict[str, type[Database]] = {"mariadb": MariaDb, "postgres": PostgreSql}


def program(name: str) -> str:
    """Find a program, also where Debian keeps what is not for everybody's path."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin") or next(map(str, places), None)
    if found is None:
        raise ServerFailed(f"{name} is not installed: sh tools/need.sh mariadbd initdb")
    return shlex.quote(found)
