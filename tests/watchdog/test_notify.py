"""Messages to the supervisor, over real datagram sockets."""

import logging

import pytest

from holdfast.watchdog.notify import Notifier, address_of, in_one_line
from tests.watchdog.supervisor import supervisor


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
def test_a_message_arrives_whole_at_both_kinds_of_sockets(tmp_path, abstract):
    with supervisor(tmp_path, abstract=abstract) as systemd:
        notifier = Notifier(systemd.environ())
        assert notifier.supervised
        assert notifier.send("READY=1", "STATUS=at work")
        assert systemd.told() == ["READY=1", "STATUS=at work"]


def test_the_environment_of_the_process_is_what_counts(systemd, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", systemd.name)
    assert Notifier().send("STOPPING=1")
    assert systemd.heard() == ["STOPPING=1"]


def test_where_nobody_supervises_nothing_is_sent_and_nothing_fails():
    notifier = Notifier({})
    assert not notifier.supervised
    assert not notifier.send("READY=1")


@pytest.mark.parametrize("name", ["@", "relative/path", "vsock:2:1234"])
def test_a_socket_that_cannot_be_is_said_so_once_and_left_alone(name, caplog):
    assert address_of(name) is None
    assert [name in record.message for record in caplog.records] == [True]


def test_a_supervisor_that_went_away_is_complained_of_once(tmp_path, caplog):
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    assert not notifier.send("WATCHDOG=1")
    assert not notifier.send("WATCHDOG=1")
    assert [record.message[:35] for record in caplog.records] == ["cannot tell the supervisor WATCHDOG"]
    with supervisor(tmp_path) as systemd:
        assert notifier.send("WATCHDOG=1")
        assert systemd.heard() == ["WATCHDOG=1"]
    assert not notifier.send("WATCHDOG=1")
    assert len(caplog.records) == 2


def test_a_supervisor_that_does_not_read_holds_nobody_up(systemd, caplog):
    systemd.fill()
    assert not Notifier(systemd.environ()).send("WATCHDOG=1", wait_s=0)
    assert caplog.records[0].levelno == logging.WARNING
    assert set(systemd.heard()) == {"STATUS=and on and on"}


def test_a_path_that_is_too_long_for_a_socket_is_no_end_of_the_service(tmp_path, caplog):
    assert not Notifier({"NOTIFY_SOCKET": f"{tmp_path}/{'x' * 200}"}).send("READY=1")
    assert "too long" in caplog.text


def test_a_text_cannot_smuggle_in_a_message_of_its_own():
    assert in_one_line("fine\nWATCHDOG=trigger\r\n") == "fine WATCHDOG=trigger"
