"""The blocking face is made from the asyncio face: words are exchanged, and what is stale or left over is noticed."""

import inspect

from holdfast import aio, sync
from tools.faces import BY_HAND, SOURCE, TARGET, faces, main, translate

SOURCE_TEXT = '''"""A module."""

from collections.abc import AsyncIterator, Awaitable, Callable

from holdfast.aio.held import Held


class Thing:
    async def __aenter__(self) -> Held:
        return await self.take(await self.where())

    async def __aexit__(self, *exc: object) -> None:
        async with self.lock:
            (await self.one()).close()

    async def each(self) -> AsyncIterator[int]:
        async for item in self.items():
            yield item

    def decorate(self, function: Callable[[int], Awaitable[dict[str, int]]]) -> None:
        """Leave plain things as they are: awaiting, async."""
'''


def test_words_are_exchanged():
    made = translate(SOURCE_TEXT, "thing.py")
    assert made.startswith("# Made from aio/thing.py by tools/faces.py")
    for gone in ("holdfast.aio", "async def", "async with", "await ", "Awaitable", "AsyncIterator", "__aenter__"):
        assert gone not in made
    for there in (
        "from holdfast.sync.held import Held",
        "def __enter__(self) -> Held:\n        return self.take(self.where())",
        "with self.lock:\n            (self.one()).close()",
        "def each(self) -> Iterator[int]:\n        yield from self.items()",
        "Callable[[int], dict[str, int]]",
        "Leave plain things as they are: awaiting, async.",
    ):
        assert there in made
    compile(made, "thing.py", "exec")


def test_what_is_checked_in_is_what_would_be_made(capsys):
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == ""
    made = {path.name for path in faces(SOURCE, TARGET)}
    assert made | BY_HAND == {path.name for path in SOURCE.glob("*.py")} == {path.name for path in TARGET.glob("*.py")}


def test_what_is_stale_missing_or_left_over_is_noticed_and_mended(tmp_path, capsys):
    source, target = tmp_path / "aio", tmp_path / "sync"
    source.mkdir()
    target.mkdir()
    for name in ("one.py", "two.py", "waiting.py"):
        (source / name).write_text(SOURCE_TEXT)
    (target / "waiting.py").write_text("# by hand\n")
    assert main([], source, target) == 0
    assert sorted(path.name for path in target.iterdir()) == ["one.py", "two.py", "waiting.py"]
    assert main(["--check"], source, target) == 0
    (source / "one.py").unlink()
    (target / "two.py").write_text("changed by hand")
    assert main(["--check"], source, target) == 1
    told = capsys.readouterr().out
    assert f"{target / 'two.py'} is not what its source says" in told
    assert f"{target / 'one.py'} is not" in told
    assert (target / "two.py").read_text() == "changed by hand"
    assert main([], source, target) == 0
    assert sorted(path.name for path in target.iterdir()) == ["two.py", "waiting.py"]
    assert (target / "waiting.py").read_text() == "# by hand\n"


def test_both_faces_have_the_same_names():
    assert sorted(aio._PLACE_OF) == sorted(sync._PLACE_OF)
    for name in aio._PLACE_OF:
        one, two = getattr(aio, name), getattr(sync, name)
        if inspect.isclass(one):
            exchanged = {"__aenter__": "__enter__", "__aexit__": "__exit__"}
            assert {exchanged.get(word, word) for word in vars(one)} == set(vars(two)), name
