"""What schemathesis has to know to behave like a client: how JSON writers spell numbers, and what a key is for.

Loaded by tests/test_openapi.py through schemathesis's own settings; no expectation lives here.
"""

from itertools import count
from typing import Any

import schemathesis

KEYS = count()
WAITS = ("acquire_timeout_s", "timeout_s")


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Every request has a key of its own, and whole numbers have no fraction: `5.0` is refused on purpose."""
    case.body = _plain(case.body)
    if isinstance(case.body, dict):
        # Whoever is told how long to wait should not have to.
        case.body |= {name: 0 for name in WAITS if isinstance(case.body.get(name), int) and case.body[name] > 0}
    if case.headers and "Idempotency-Key" in case.headers and case.operation.path.endswith("/acquire"):
        case.headers["Idempotency-Key"] = f"{next(KEYS)}"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
