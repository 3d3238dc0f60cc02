"""The same random commands on two sides: nobody outside can tell the two apart.

One side is a live table. The other is a table whose resources are read again from their documents before every
command, or the naive model of one key.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.engine.document import decode, encode, reload
from holdfast.words import Answer, Effect, Ended, Granted, Mode, Nudged, Stayed
from tests.engine.kit import KEY, Scene
from tests.engine.machine import Act, Machine, new_table
from tests.engine.naive import Naive


def told(effect: Effect) -> tuple[object, ...]:
    """Write down all that a caller can know from an effect."""
    c = effect.claim
    common = (type(effect), c.session, c.ticket, c.key, c.fence, c.token, c.mode, c.deadline)
    match effect:
        case Granted():
            return common
        case Ended():
            return *common, effect.reason, effect.was
        case Stayed():
            return *common, effect.reason
        case Nudged():
            return *common, effect.want


class Reread(Machine):
    """Does everything a second time, on a table that has nothing but documents between two commands."""

    def __init__(self) -> None:
        super().__init__()
        self.twin = new_table()

    def apply(self, act: Act) -> tuple[Answer | None, list[Effect]]:
        for key in list(self.twin.resources):
            reload(self.twin, key)
        live, self.table = self.table, self.twin
        answer_of_twin, out_of_twin = super().apply(act)
        self.table = live
        answer, out = super().apply(act)
        assert answer is answer_of_twin
        assert [told(effect) for effect in out] == [told(effect) for effect in out_of_twin]
        assert self.twin.next_deadline() == self.table.next_deadline()
        assert self.twin.resources.keys() == self.table.resources.keys()
        for key, r in self.table.resources.items():
            assert encode(self.twin.resources[key]) == encode(r)
            assert encode(decode(key, encode(r))) == encode(r)
        return answer, out


TestReread = Reread.TestCase
TestReread.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)


# --- against the naive model ---

NAMES = st.sampled_from("abcdefgh")
MODES = st.sampled_from(list(Mode))
LIMIT = 7


def agree(scene: Scene, answer: Answer, expected: tuple[str, list[str]], naive: Naive) -> None:
    word = "ended" if answer is Answer.CANCELLED else answer.name.lower()
    granted = [news[1] for news in scene.news if news[0] == "granted"]
    assert (word, granted) == expected
    assert [(n, Mode(scene[n].mode).name, scene[n].units) for n in scene.holders] == [
        (lock.name, lock.mode, lock.units) for lock in naive.held
    ]
    assert scene.converters == [lock.name for lock in naive.converting]
    assert scene.waiters == [lock.name for lock in naive.waiting]


def play(scene: Scene, naive: Naive, verb: str, name: str, mode: Mode, units: int, queue: bool) -> None:
    alive = KEY in scene.table.resources and name in scene.holders + scene.waiters
    if verb == "ask" and not alive:
        answer = scene.ask(name, mode, units=units, limit=LIMIT, queue=queue)
        agree(scene, answer, naive.ask(name, mode.name, units, queue), naive)
    elif verb == "end" and alive:
        agree(scene, scene.end(name), naive.end(name), naive)
    elif verb == "cancel" and alive:
        agree(scene, scene.cancel(name), naive.cancel(name), naive)
    elif verb == "convert" and alive:
        answer = scene.convert(name, mode, queue=queue)
        agree(scene, answer, naive.convert(name, mode.name, queue), naive)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "ask", "ask", "convert", "convert", "cancel", "end"]),
            NAMES,
            MODES,
            st.sampled_from([1, 1, 1, 2, 3, LIMIT, LIMIT + 1]),
            st.sampled_from([True, True, True, False]),
        ),
        max_size=60,
    )
)
def test_the_engine_does_what_the_naive_model_does(steps: list[tuple[str, str, Mode, int, bool]]) -> None:
    scene, naive = Scene(), Naive(limit=LIMIT)
    for step in steps:
        play(scene, naive, *step)
