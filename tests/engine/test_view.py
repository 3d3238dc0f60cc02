"""What looks and counts tell, and that nothing changes by looking, not even what is due.

Who may see what is for the doors to say.
"""

import pytest

from holdfast.engine.document import encode
from holdfast.engine.view import census_of, view_of, views_of
from holdfast.words import CW, EX, PR, UNLIMITED, Look
from tests.engine.kit import KEY, Scene


@pytest.fixture
def scene() -> Scene:
    """Some locks and some seats; `free` has been held before."""
    scene = Scene()
    for name in ("b", "a", "d", "c"):
        scene.ask(name, key=b"lock:" + name.encode())
    scene.ask("waiter", key=b"lock:c")
    scene.ask("free", key=b"lock:free")
    scene.end("free")
    for name in ("s1", "s2", "s3"):
        scene.ask(name, CW, key=b"sem:pool", limit=2)
    return scene


def keys(scene: Scene, look: Look) -> list[bytes]:
    return [view.key for view in views_of(scene.table, look)]


def test_a_view_tells_who_holds_and_how_many_wait() -> None:
    scene = Scene()
    scene.ask("a", PR, lease=30)
    scene["a"].owner = b"me"
    scene.ask("b", PR)
    scene.ask("c", EX)
    view = view_of(scene.key)
    assert (view.key, view.limit, view.waiters, view.touched, view.version) == (KEY, UNLIMITED, 1, scene.now, 2)
    one, other = view.holders
    assert (one.owner, one.mode, one.units, one.fence) == (b"me", PR, 1, scene["a"].fence)
    assert (one.deadline, one.secret, one.session) == (scene["a"].deadline, scene["a"].secret, scene["a"].session)
    assert other.fence == scene["b"].fence


def test_what_is_shown_does_not_change_with_what_it_shows() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    view = view_of(scene.key)
    scene.renew("a", 90)
    assert view.holders[0].deadline == scene.now + 30 * 10**9


def test_looking_changes_nothing_not_even_what_is_due() -> None:
    scene = Scene()
    scene.ask("a", lease=5)
    scene.sleep(10)
    before = encode(scene.key)
    assert len(views_of(scene.table, Look())[0].holders) == 1
    census_of(scene.table)
    assert encode(scene.key) == before


def test_a_look_at_everything_shows_everything(scene: Scene) -> None:
    assert sorted(keys(scene, Look())) == [b"lock:a", b"lock:b", b"lock:c", b"lock:d", b"lock:free", b"sem:pool"]


def test_a_look_at_one_key_shows_it_if_it_is_known(scene: Scene) -> None:
    assert keys(scene, Look(key=b"lock:a")) == [b"lock:a"]
    assert keys(scene, Look(key=b"lock:none")) == []
    assert keys(scene, Look(key=b"lock:free", held=True)) == []


def test_pages_follow_the_order_of_the_keys(scene: Scene) -> None:
    assert keys(scene, Look(b"lock:", count=2)) == [b"lock:a", b"lock:b"]
    assert keys(scene, Look(b"lock:", count=2, after=b"lock:b")) == [b"lock:c", b"lock:d"]
    assert keys(scene, Look(b"lock:", count=9, after=b"lock:d")) == [b"lock:free"]
    assert keys(scene, Look(b"lock:", count=9, after=b"lock:zzz")) == []


def test_only_held_keys_or_only_free_ones(scene: Scene) -> None:
    assert keys(scene, Look(b"lock:", held=False)) == [b"lock:free"]
    assert keys(scene, Look(b"lock:", held=True, count=99)) == [b"lock:a", b"lock:b", b"lock:c", b"lock:d"]


def test_a_census_counts_locks_and_seats_apart(scene: Scene) -> None:
    census = census_of(scene.table)
    assert (census.keys, census.held, census.waiting) == (6, 4, 1)
    assert (census.seats_held, census.seats_waiting) == (2, 1)


def test_nobody_is_counted_where_nobody_is() -> None:
    empty = census_of(Scene().table)
    assert (empty.keys, empty.held, empty.waiting, empty.seats_held, empty.seats_waiting) == (0, 0, 0, 0, 0)


# --- deep looks ---


def test_a_look_that_is_not_deep_tells_only_how_many_wait() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b")
    (view,) = views_of(scene.table, Look())
    assert (view.waiters, view.queue) == (1, [])


def test_a_deep_look_tells_who_waits_conversions_first() -> None:
    scene = Scene()
    scene.ask("a", PR, lease=30, listens=True)
    scene.ask("b", PR)
    scene.sleep(1)
    scene.ask("c", EX, patience=9, tracked=True)
    scene["c"].owner, scene["c"].about = b"me", b"{}"
    scene.sleep(1)
    scene.convert("a", EX, patience=5)
    (view,) = views_of(scene.table, Look(key=KEY, deep=True))
    one, other = view.queue
    assert (one.converting, one.want, one.since, one.deadline) == (True, EX, scene.now, scene.now + 5 * 10**9)
    assert (one.session, one.fence, one.blocked, one.group) == (scene.session("a"), scene["a"].fence, True, 0)
    assert (other.converting, other.want, other.units, other.fence) == (False, EX, 1, 0)
    assert (other.owner, other.about, other.blocked) == (b"me", b"{}", False)
    assert (other.since, other.deadline) == (scene.now - 10**9, scene.now + 8 * 10**9)
    assert (other.order, one.order) == (1, 2)
    a, b = view.holders
    assert (a.converting, a.listens, a.since, a.kept) == (EX, True, scene.now - 2 * 10**9, False)
    assert (b.converting, b.listens) == (None, False)


def test_a_look_that_reaches_shows_its_key_first_and_then_what_it_depends_on(scene: Scene) -> None:
    scene.ask("reacher", key=b"lock:a", by="c")
    assert keys(scene, Look(key=b"lock:c", reach=True)) == [b"lock:c", b"lock:a"]
    assert keys(scene, Look(key=b"lock:none", reach=True)) == []
    assert keys(scene, Look(reach=True)) == [b"lock:a"]
