"""What must not be in the story of one lease trial with real processes: a pure function of what was written down.

All instants are nanoseconds of one monotonic clock, that of the machine. Nothing is measured here.
"""

from dataclasses import dataclass, field
from typing import Any

MILLISECOND = 1_000_000
# A notice is due by the margin before the end of the lease; who was not let run for that long could not hear it.
AWAY_NS_MIN = 25 * MILLISECOND
LATELY_NS = 150 * MILLISECOND


@dataclass(slots=True)
class Story:
    """One trial, as its processes and its driver have seen it."""

    name: str
    lease_ns: int
    lines: list[dict[str, Any]] = field(default_factory=list)  # of the holder, or of the command under `holdfast run`
    next_grant_ns: int | None = None  # no earlier than this somebody else had the lock
    next_fence: int | None = None
    deaf: bool = False  # something kept the holder from hearing anything: it was stopped, or hung
    alive_ns: int | None = None  # when the command under `holdfast run` last showed that it lives
    exit_code: int | None = None
    failure: str = ""  # why it could not be played

    def when(self, what: str) -> list[int]:
        """Say when something was."""
        return [line["at"] for line in self.lines if line["what"] == what]


def judge(story: Story) -> list[str]:
    """Say all that must not be."""
    grant = story.next_grant_ns
    if story.failure:
        return [f"{story.name}: {story.failure}"]
    if grant is None:
        return [f"{story.name}: nobody else was ever granted the lock"]
    if story.alive_ns is not None:
        return _judge_command(story, grant)
    return [*_judge_belief(story, grant), *_judge_notices(story, grant), *_judge_fence(story)]


def was_starved(story: Story) -> bool:
    """Tell whether a notice is forgiven, since the machine did not let the holder run when it was due."""
    grant = story.next_grant_ns
    return grant is not None and bool(_missing_notices(story, grant)) and _was_away(story, grant)


def _judge_command(story: Story, grant: int) -> list[str]:
    assert story.alive_ns is not None
    if story.alive_ns >= grant:
        late = (story.alive_ns - grant) / MILLISECOND
        return [f"{story.name}: the command still ran {late:.1f} ms after somebody else was granted the lock"]
    return []


def _judge_belief(story: Story, grant: int) -> list[str]:
    return [
        f"{story.name}: held was true {(at - grant) / MILLISECOND:.1f} ms after somebody else was granted the lock"
        for at in story.when("held")
        if at >= grant
    ]


def _judge_notices(story: Story, grant: int) -> list[str]:
    return [] if _was_away(story, grant) else _missing_notices(story, grant)


def _was_away(story: Story, grant: int) -> bool:
    """Tell whether the holder was not let run for a while, just before the grant."""
    aways = [line for line in story.lines if line["what"] == "away" and line["until"] - line["at"] >= AWAY_NS_MIN]
    since = grant - LATELY_NS
    return any(line["at"] <= grant and line["until"] >= since for line in aways)


def _missing_notices(story: Story, grant: int) -> list[str]:
    """Whoever could hear was told: of the danger, then of the loss, and then somebody else was granted the lock."""
    released, danger, lost = (min(story.when(what), default=None) for what in ("released", "danger", "lost"))
    if (released is not None and released <= grant) or story.deaf:
        return []
    if lost is None or lost >= grant:
        return [f"{story.name}: the notice of the loss did not come before the next grant"]
    if danger is None or danger >= lost:
        return [f"{story.name}: the notice of the danger did not come before the loss"]
    return []


def _judge_fence(story: Story) -> list[str]:
    fences = [line["fence"] for line in story.lines if line["what"] == "granted"]
    if story.next_fence is not None and any(fence >= story.next_fence for fence in fences):
        return [f"{story.name}: the fence went from {fences[0]} to {story.next_fence}"]
    return []
