"""What a handle shows without asking anybody, and from where it says that it was made."""

import threading

from holdfast.client.lease import State
from holdfast.leases import handle
from holdfast.leases.handle import Handle, caller
from tests.leases.paper import Machine, PaperBackend


def test_a_handle_that_was_never_used_has_nothing():
    machine = Machine()
    made = Handle(
        "cluster", backend=PaperBackend(machine.clock), world=machine.world, new_event=threading.Event, op="Work"
    )
    assert (made.state, made.held, made.lost, made.lost_reason, made.remaining) == (None, False, False, "", 0.0)
    assert (made.objecttype, made.subtype, made.objectname, made.timeout) == ("cluster", None, None, 120)
    assert (made.key, made.lockid, made.lock_data["operation"]) == ("cluster/", "", "Work")
    made.beat()
    assert made.state is not State.HELD


def test_who_calls_is_the_first_outside_of_the_package():
    assert caller().startswith(f"{__file__}:")
    assert handle.__file__.startswith(handle.HERE)
