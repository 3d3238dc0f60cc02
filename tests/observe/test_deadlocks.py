"""When deadlocks are looked for, counted and told: a moment after somebody has begun to wait, and until they are gone.

Which cycles there are is tested with the engine; three doors close one of them here, on a real server.
"""

import http.client
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from structlog.testing import capture_logs

from holdfast.engine.graph import Cycle, Party
from holdfast.engine.view import view_of
from holdfast.observe.deadlocks import AGAIN_NS, PAUSE_NS, SHARE, Deadlocks, spell_party
from holdfast.testing.clock import HandClock
from holdfast.testing.line_peer import LinePeer
from holdfast.testing.process import ServerProcess, command, environment
from holdfast.words import FOREVER, SECOND, View
from tests.conftest import Start
from tests.engine.kit import Scene
from tests.http_peer import WAIT_S_MAX, HttpPeer

OTHER = b"orders/18"


class Tower:
    """A scene, and somebody who looks at it for deadlocks."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.clock = HandClock()
        self.alarms: list[int] = []
        self.looks: list[Callable[[list[View]], None]] = []  # that are not answered yet
        self.looked = 0
        self.late = False
        self.thinks_s = 0.0
        self.heard: list[tuple[int, int]] = []
        self.deadlocks = Deadlocks(self._look, self.clock, self.alarms.append)
        self.deadlocks.heard = self._hear

    def _look(self, then: Callable[[list[View]], None]) -> None:
        self.looked += 1
        self.looks.append(then)
        if not self.late:
            self.answer()

    def answer(self) -> None:
        self.looks.pop()([view_of(r, True) for r in self.scene.table.resources.values()])

    def _hear(self, cycles: list[Cycle], fresh: list[Cycle]) -> None:
        self.heard.append((len(cycles), len(fresh)))
        self.clock.advance(self.thinks_s)

    def after(self, ns: int) -> None:
        """Let time pass, and let everything happen at its instant."""
        until = self.clock.now + ns
        while (due := self.deadlocks.next_deadline()) <= until:
            self.clock.advance_to(max(due, self.clock.now))
            self.deadlocks.tick(self.clock.now)
        self.clock.advance_to(max(until, self.clock.now))

    def tie(self) -> None:
        """Let two wait for each other."""
        self.scene.ask("a", by="A")
        self.scene.ask("b", key=OTHER, by="B")
        self.scene.ask("a2", key=OTHER, by="A")
        self.scene.ask("b2", by="B")
        self.deadlocks.somebody_waits()


@pytest.fixture
def tower() -> Tower:
    return Tower()


def test_as_long_as_nobody_waits_nobody_looks(tower: Tower) -> None:
    assert tower.deadlocks.next_deadline() == FOREVER
    tower.after(3600 * SECOND)
    assert (tower.looked, tower.alarms) == (0, [])


def test_one_look_serves_all_who_have_begun_to_wait_a_moment_ago(tower: Tower) -> None:
    started = tower.clock.now
    for _ in range(3):
        tower.deadlocks.somebody_waits()
        tower.after(PAUSE_NS // 4)
    assert (tower.looked, tower.alarms) == (0, [started + PAUSE_NS])
    tower.after(PAUSE_NS)
    assert (tower.looked, tower.heard) == (1, [(0, 0)])
    assert tower.deadlocks.next_deadline() == FOREVER


def test_a_deadlock_is_counted_logged_and_told_once_and_looked_for_until_it_is_gone(tower: Tower) -> None:
    tower.tie()
    with capture_logs() as lines:
        tower.after(PAUSE_NS + 3 * AGAIN_NS)
    assert tower.heard == [(1, 1), (1, 0), (1, 0), (1, 0)]
    assert (len(tower.deadlocks.cycles), tower.deadlocks.found) == (1, 1)
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("deadlock", "warning")
    a, b = tower.scene.session("A"), tower.scene.session("B")
    assert line["cycle"] == [
        f"somebody (session {a}) waits for orders/18: (EX); somebody (session {b}) has it",
        f"somebody (session {b}) waits for orders/17: (EX); somebody (session {a}) has it",
    ]
    tower.scene.cancel("a2")
    tower.after(2 * AGAIN_NS)
    assert tower.heard[-1] == (0, 0)
    assert (tower.deadlocks.cycles, tower.deadlocks.found) == ([], 1)
    assert tower.deadlocks.next_deadline() == FOREVER


def test_the_same_two_who_tie_themselves_again_are_counted_again(tower: Tower) -> None:
    tower.tie()
    tower.after(PAUSE_NS)
    tower.scene.cancel("a2")
    tower.after(AGAIN_NS)
    tower.scene.ask("a3", key=OTHER, by="A")
    tower.deadlocks.somebody_waits()
    tower.after(PAUSE_NS)
    assert (len(tower.deadlocks.cycles), tower.deadlocks.found) == (1, 2)


def test_somebody_is_named_by_what_it_says_of_itself_or_by_where_it_is() -> None:
    assert spell_party(Party(7, b"billing@web-1:7", b"{}")) == "billing@web-1:7 (session 7)"
    assert spell_party(Party(7, b"", b'{"door":"line","peer":"10.0.0.3:5171"}')) == "line 10.0.0.3:5171 (session 7)"
    assert spell_party(Party(7, b"", b"\xff")) == "somebody (session 7)"


def test_while_a_look_is_under_way_no_other_begins_and_whoever_waits_meanwhile_is_looked_at_next(tower: Tower) -> None:
    tower.late = True
    tower.deadlocks.somebody_waits()
    tower.after(PAUSE_NS)
    assert (tower.looked, tower.deadlocks.next_deadline()) == (1, FOREVER)
    tower.tie()
    tower.after(SECOND)
    assert tower.looked == 1
    tower.answer()
    assert tower.deadlocks.next_deadline() <= tower.clock.now + AGAIN_NS
    tower.late = False
    tower.after(AGAIN_NS)
    assert tower.looked == 3
    assert len(tower.deadlocks.cycles) == 1


def test_looking_takes_no_more_than_its_share_of_the_time(tower: Tower) -> None:
    tower.thinks_s = 1.0
    tower.tie()
    tower.after(PAUSE_NS)
    seen = tower.clock.now
    assert tower.deadlocks.next_deadline() == seen + (SHARE - 1) * SECOND
    tower.deadlocks.somebody_waits()
    assert tower.deadlocks.next_deadline() == seen + (SHARE - 1) * SECOND


# --- three doors ---

HELLO = {"version": 1, "client": "billing", "host": "web-1", "pid": 4711}


class Native:
    """A caller of the native door over a real socket; answers and events come in the order in which they were said."""

    def __init__(self, port: int, connections: ExitStack) -> None:
        self._peer = connections.enter_context(LinePeer(port))
        self._ids = 0
        assert self._peer.ask("hello", "_", json.dumps(HELLO)).startswith("ok ")

    def post(self, op: str, **fields: Any) -> None:
        self._ids += 1
        self._peer.send(json.dumps({"id": self._ids, "op": op, **fields}).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._peer.hear())
        return told

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        self.post(op, **fields)
        return self.hear()


class Trio:
    """Three callers over three doors, each of whom holds a key of its own: `line`, `web` and `native`."""

    def __init__(self, server: ServerProcess, connections: ExitStack) -> None:
        self.server = server
        self.watcher = Native(server.port, connections)
        self.line = connections.enter_context(LinePeer(server.port))
        self.http = connections.enter_context(HttpPeer(server.http_port))
        self.native = Native(server.port, connections)
        self._poll = connections.enter_context(
            closing(http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=WAIT_S_MAX))
        )
        self.token = self.line.ask("l", "line", "0 600").split()[1]
        assert self.http.acquire("web").status == 200
        assert self.native.call("acquire", key="native", ticket="ticket-of-n-0001")["answer"] == "granted"

    def wait(self) -> None:
        """Let the first two wait: the line protocol for the key of HTTP, and HTTP for that of the native one."""
        self.line.say("l", "web", "600 600")
        body = json.dumps({"owner_id": "w1", "ttl_ms": 60_000})
        self._poll.request("POST", "/v1/locks/native/acquire?wait_ms=60000", body)
        for key in ("web", "native"):
            while not self.watcher.call("look", key=key)["keys"][0]["waiting"]:
                pass  # what it asks goes over connections of its own

    def polled(self) -> dict[str, Any]:
        """Take the answer to the long poll."""
        told: dict[str, Any] = json.loads(self._poll.getresponse().read())
        return told

    def ask_operator(self) -> tuple[int, list[list[dict[str, Any]]]]:
        """Run `holdfast deadlocks`."""
        url = f"holdfast://127.0.0.1:{self.server.port}"
        done = subprocess.run(
            command("deadlocks", "--server", url, "--json"),
            capture_output=True,
            timeout=60,
            check=False,
            env=environment(),
        )
        return done.returncode, json.loads(done.stdout)

    def metric(self, name: str) -> int:
        (value,) = re.findall(rf"^{name} ([0-9.e+]+)$", self.http.get("/metrics").text, re.MULTILINE)
        return int(float(value))


@pytest.fixture
def trio(start: Start) -> Iterator[Trio]:
    server = start("serve", "--http", "127.0.0.1:0")
    with ExitStack() as connections:
        yield Trio(server, connections)


def test_three_doors_close_a_circle_and_the_operator_is_told_by_command_event_metric_and_log(trio: Trio) -> None:
    trio.watcher.call("watch", deadlocks=True)
    trio.wait()
    trio.native.post("acquire", key="line", ticket="ticket-of-n-0002", meta={"operation": "month end"})
    event = trio.watcher.hear()
    assert event["event"] == "deadlock"
    assert {edge["key"]: (edge["door"], edge["behind"]["door"]) for edge in event["cycle"]} == {
        "web": ("line", "http"),
        "native": ("http", "native"),
        "line": ("native", "line"),
    }
    code, cycles = trio.ask_operator()
    assert code == 1
    ((*edges,),) = cycles
    assert {edge["key"]: edge.get("operation") for edge in edges} == {"web": None, "native": None, "line": "month end"}
    assert (trio.metric("holdfast_deadlocks"), trio.metric("holdfast_deadlocks_found_total")) == (1, 1)
    assert trio.server.log.count('"event": "deadlock"') == 1
    told = trio.watcher.call("explain", key="web")["explanation"]
    assert told["queue"][0]["deadlocked"]
    assert [wish["key"] for wish in told["chain"]] == ["native", "line"]
    # Whoever takes a part of the circle away sets the others free.
    assert trio.watcher.call("break", key="line", reason="a test")["ended"] == 1
    assert trio.native.hear()["key"] == "line"
    assert trio.ask_operator() == (0, [])


def test_whoever_would_rather_be_refused_does_not_close_the_circle(trio: Trio) -> None:
    trio.wait()
    for op in ("acquire", "enqueue"):
        told = trio.native.call(op, key="line", ticket="ticket-of-n-0002", deadlock="refuse")
        assert (told["error"], told["retry"]) == ("would_deadlock", "never")
    assert trio.watcher.call("deadlocks")["cycles"] == []
    assert trio.native.call("acquire", key="free", ticket="ticket-of-n-0002", deadlock="refuse")["answer"] == "granted"
    assert trio.native.call("end", ticket="ticket-of-n-0001")["answer"] == "ended"
    assert trio.polled()["acquired"] is True
