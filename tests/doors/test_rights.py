"""Bearer tokens: which prefix of keys gives which rights, who is turned away, and which files are refused.

How long a refusal takes, and how it is spelled, is tested with the doors.
"""

import json

import pytest

from holdfast.doors.rights import Right, Rights
from holdfast.errors import ConfigError

FILE = json.dumps(
    {
        "tokens": [
            {"name": "ci", "token": "open-sesame", "rights": {"": ["read"], "ci/": ["read", "hold"], "ci/x/": []}},
            {"name": "ops", "token": "schlüssel", "rights": {"": ["read", "hold", "break"]}},
            {"name": "none", "token": "nothing", "rights": {}},
        ]
    }
)


@pytest.fixture
def rights() -> Rights:
    return Rights.load(FILE, auth_token="the plain one")


@pytest.mark.parametrize(
    ("right", "key", "status"),
    [
        ("read", "anything", 200),
        ("hold", "anything", 403),
        ("read", "ci/build", 200),
        ("hold", "ci/build", 200),
        ("break", "ci/build", 403),
        ("hold", "ci/", 200),
        ("hold", "ci", 403),
        ("hold", "CI/build", 403),
        ("read", "ci/x/secret", 403),
        ("hold", "ci/\udcff", 200),
        (None, "ci/x/secret", 200),
    ],
)
def test_the_longest_prefix_that_fits_decides(rights: Rights, right: Right | None, key: str, status: int) -> None:
    assert rights.allows("Bearer open-sesame", right, key) == status


def test_a_token_without_rights_is_known_and_may_nothing(rights: Rights) -> None:
    assert rights.allows("Bearer nothing", None) == 200
    assert rights.allows("Bearer nothing", "read", "job") == 403


def test_the_plain_token_may_do_everything(rights: Rights) -> None:
    for right in ("read", "hold", "break"):
        assert rights.allows("Bearer the plain one", right, "any/key") == 200


@pytest.mark.parametrize("header", ["bearer nothing", "BEARER nothing", "Bearer  nothing ", "\tBearer nothing"])
def test_the_scheme_may_be_written_in_any_case(rights: Rights, header: str) -> None:
    assert rights.allows(header, None) == 200


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Bearer Nothing",
        "Bearer nothin",
        "Bearer nothing!",
        "Basic nothing",
        "nothing",
        "Bearernothing",
        "Bearer \u20ac",
    ],
)
def test_whoever_shows_no_known_token_is_unauthorized(rights: Rights, header: str | None) -> None:
    assert rights.allows(header, None) == 401
    assert rights.allows(header, "read", "job") == 401


def test_a_header_carries_the_bytes_of_a_token(rights: Rights) -> None:
    header = "Bearer schlüssel".encode().decode("latin-1")
    assert rights.allows(header, "break", "job") == 200
    assert rights.allows("Bearer schlüssel", "break", "job") == 401


def test_a_bearer_is_found_by_name_for_the_log(rights: Rights) -> None:
    bearer = rights.find("Bearer open-sesame")
    assert bearer is not None
    assert bearer.name == "ci"


def test_without_any_token_everybody_may_do_everything() -> None:
    rights = Rights.load(None)
    assert rights.allows(None, "break", "job") == 200
    assert rights.allows("Bearer whatever", None) == 200


def test_the_plain_token_alone_is_enough_to_close_the_door() -> None:
    rights = Rights.load(None, auth_token="sesame")
    assert [rights.allows(header, "hold", "job") for header in (None, "Bearer sesame")] == [401, 200]


def entry(**changes: object) -> str:
    return json.dumps({"tokens": [{"name": "ci", "token": "sesame", "rights": {}} | changes]})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "truncated"),
        ("tokens", "malformed"),
        ("[]", "array"),
        ("{}", "tokens"),
        ('{"tokens":[],"more":1}', "more"),
        ('{"tokens":[]}', "no tokens"),
        ('{"tokens":[]} {}', "trailing"),
        ("\udcff", "malformed"),
        ('{"tokens":[],"\udcff":1}', "utf-8"),
        ('{"tokens":[{"name":"ci","rights":{}}]}', "token"),
        (entry(rights={"": ["own"]}), "own"),
        (entry(rights={"": "read"}), "rights"),
        (entry(rights=None), "rights"),
        (entry(name=""), "tokens[0]: the name"),
        (entry(token=""), "'ci'"),
        (entry(token="two words"), "white space"),
        (entry(token="bell\a"), "control"),
        (entry(token=7), "$.tokens[0].token"),
        (entry(extra=7), "extra"),
    ],
)
def test_a_bad_file_is_refused_with_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Rights.load(text)
    assert str(refused.value).startswith("http_tokens_file: ")
    assert says in str(refused.value)


@pytest.mark.parametrize(("other", "says"), [({"name": "ci"}, "same name"), ({"token": "sesame"}, "same token")])
def test_two_entries_must_be_told_apart(other: dict[str, str], says: str) -> None:
    first = {"name": "ci", "token": "sesame", "rights": {}}
    text = json.dumps({"tokens": [first, {"name": "b", "token": "b", "rights": {}} | other]})
    with pytest.raises(ConfigError, match=says):
        Rights.load(text)


def test_a_token_with_few_rights_must_not_be_the_one_with_all() -> None:
    with pytest.raises(ConfigError, match="auth_token"):
        Rights.load(entry(), auth_token="sesame")


def test_a_refusal_never_repeats_a_token() -> None:
    for text in (entry(token="se same"), entry(token="sesame\x00"), entry(name="", token="sesame")):
        with pytest.raises(ConfigError) as refused:
            Rights.load(text)
        assert "same" not in str(refused.value)
