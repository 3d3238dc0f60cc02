"""What all HTTP interfaces share: how JSON leaves, and what a reply has.

What is said in it is tested with each interface.
"""

from holdfast.wire.http import JSON, HttpReply, HttpRequest, reply, spell


def test_json_ends_with_a_newline() -> None:
    assert spell({"a": 1, "b": "é"}) == '{"a":1,"b":"é"}\n'.encode()


def test_a_reply_is_json_unless_it_says_otherwise() -> None:
    made = reply(404, {"error": "no"}, ("Allow", "GET"))
    assert made == HttpReply(status=404, body=b'{"error":"no"}\n', media_type=JSON, headers=(("Allow", "GET"),))


def test_a_request_needs_no_more_than_a_method_and_a_path() -> None:
    request = HttpRequest(method="GET", path="/")
    assert (request.query, request.headers, request.body) == ({}, {}, b"")
