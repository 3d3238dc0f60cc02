"""Each figure of the client is taken once, as short as it gets; how large it is says nothing here."""

import sys

import pytest

from bench.client import imports, in_a_fresh_process, load_pairs, load_renewals, main, pairs, renewals
from bench.programs import ProgramFailed, read_figures
from bench.servers import holdfast, running
from tests.bench.test_loads import rows_of


def test_pairs_are_measured_beside_the_c_load_tool() -> None:
    assert rows_of(pairs(0.1, rounds=1))[-2:] == ["C load tool", "sync client"]


def test_a_round_of_renewals_is_measured() -> None:
    assert rows_of(renewals(0.1, rounds=1, locks=3))[-1] == "a round"


def test_imports_are_measured() -> None:
    assert rows_of(imports(rounds=1))[-2:] == ["import holdfast", "from holdfast import connect"]


def test_the_loads_give_their_figures_by_name() -> None:
    with running("holdfast", holdfast) as server:
        assert load_pairs(server.port, 0.05)["pairs/s"] > 0
        assert load_renewals(server.port, 0.05, 3)["cpu_ms"] >= 0


def test_a_fresh_process_prints_what_it_took(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running("holdfast", holdfast) as server:
        monkeypatch.setattr(sys, "argv", ["client", "pairs", str(server.port), "0.05"])
        assert main() == 0
    assert list(read_figures(capsys.readouterr().out)) == ["pairs/s"]


def test_a_client_that_fails_gives_no_figures() -> None:
    with pytest.raises(ProgramFailed, match="exit code 2: usage"):
        in_a_fresh_process("nonsense", 1, 0.1, seconds=30)
