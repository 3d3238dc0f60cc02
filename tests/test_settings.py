"""Reading one setting, one address or one store URL.

Nothing here is about which settings there are.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ConfigError
from holdfast.settings import (
    COUNT_MAX,
    PORT_MAX,
    SECOND,
    Given,
    Kind,
    Setting,
    StoreChoice,
    Value,
    join_address,
    parse_store,
    split_address,
)


def make(kind: Kind, default: Value = None, **facts: object) -> Setting:
    names = {"field": "thing_ns", "name": "thing", "flag": "--thing", "variable": "THING"}
    return Setting(**names, kind=kind, default=default, help="A thing.", group="Things", **facts)


def read(setting: Setting, text: str) -> Value:
    return setting.read(Given(text, "--thing"))


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("7", 7), ("+7", 7), ("007", 7), ("-0", 0), ("9223372036854775807", COUNT_MAX)]
)
def test_whole_numbers_are_plain_decimals(text, value):
    assert read(make(Kind.COUNT), text) == value


@pytest.mark.parametrize(
    "text", ["", " 7", "7 ", "7\n", "1_000", "0x10", "1.0", "1e3", "٣", "seven", "-", "+-1", "9" * 5000]
)
def test_what_is_no_plain_decimal_is_refused(text):
    with pytest.raises(ConfigError):
        read(make(Kind.COUNT), text)


@pytest.mark.parametrize("kind", [Kind.SECONDS, Kind.COUNT, Kind.BYTES])
def test_both_limits_belong_to_the_range_and_their_neighbours_do_not(kind):
    setting = make(kind, least=3, most=9)
    unit = SECOND if kind is Kind.SECONDS else 1
    assert (read(setting, "3"), read(setting, "9")) == (3 * unit, 9 * unit)
    for text in ("2", "10", "-3"):
        with pytest.raises(ConfigError, match="from 3 to 9"):
            read(setting, text)


def test_seconds_become_nanoseconds():
    assert read(make(Kind.SECONDS), "23") == 23_000_000_000


@pytest.mark.parametrize(("text", "value"), [(w, True) for w in ("1", "yes", "true", "TRUE", "Yes")])
def test_words_for_true(text, value):
    assert read(make(Kind.BOOLEAN), text) is value


@pytest.mark.parametrize(("text", "value"), [(w, False) for w in ("0", "no", "false", "FALSE", "No")])
def test_words_for_false(text, value):
    assert read(make(Kind.BOOLEAN), text) is value


@pytest.mark.parametrize("text", ["", "t", "f", "on", "off", "2", "true ", "ja"])
def test_other_words_are_no_booleans(text):
    with pytest.raises(ConfigError, match="one of true, yes, 1, false, no, 0"):
        read(make(Kind.BOOLEAN), text)


def test_a_choice_is_one_of_its_words_exactly():
    setting = make(Kind.CHOICE, choices=("info", "error"))
    assert read(setting, "error") == "error"
    for text in ("", "Error", "warn"):
        with pytest.raises(ConfigError, match="one of info, error"):
            read(setting, text)


@pytest.mark.parametrize("kind", [Kind.TEXT, Kind.FILE, Kind.ADDRESS, Kind.HOST, Kind.STORE])
def test_no_text_may_be_empty(kind):
    with pytest.raises(ConfigError, match=r"^thing must be .*, not '' \(from --thing\)"):
        read(make(kind), "")


def test_a_text_is_kept_as_it_is():
    assert read(make(Kind.TEXT), " a b ") == " a b "
    assert read(make(Kind.FILE), "/etc/holdfast/tls cert.pem") == "/etc/holdfast/tls cert.pem"


def test_a_refusal_names_setting_value_limits_and_source():
    with pytest.raises(ConfigError) as caught:
        make(Kind.SECONDS, least=1, most=60).read(Given("61", "THING"))
    assert str(caught.value) == "thing must be a whole number of seconds from 1 to 60, not '61' (from THING)"
    with pytest.raises(ConfigError) as caught:
        make(Kind.BYTES, least=1, most=60).read(Given("x\ny", "--thing"))
    assert str(caught.value) == r"thing must be a whole number of bytes from 1 to 60, not 'x\ny' (from --thing)"


def test_a_refusal_never_repeats_a_secret():
    error = make(Kind.TEXT, secret=True).refusal(Given("hunter2", "--thing"))
    assert str(error) == "thing must be a text that is not empty (from --thing)"


@pytest.mark.parametrize(
    ("kind", "default", "shown"),
    [
        (Kind.SECONDS, 23 * SECOND, "23"),
        (Kind.SECONDS, 0, "0"),
        (Kind.COUNT, 10_000, "10000"),
        (Kind.BOOLEAN, True, "true"),
        (Kind.BOOLEAN, False, "false"),
        (Kind.TEXT, None, "unset"),
        (Kind.TEXT, "memory:", "memory:"),
    ],
)
def test_a_default_is_shown_as_a_person_would_type_it(kind, default, shown):
    assert make(kind, default).shown() == shown


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:6388", ("127.0.0.1", 6388)),
        ("localhost:0", ("localhost", 0)),
        ("lock-1.example.org:65535", ("lock-1.example.org", PORT_MAX)),
        ("[::1]:6388", ("::1", 6388)),
        ("[::ffff:10.0.0.1]:1", ("::ffff:10.0.0.1", 1)),
        ("[fe80::1%eth0]:6388", ("fe80::1%eth0", 6388)),
        ("*:6388", ("", 6388)),
    ],
)
def test_an_address_is_split_into_host_and_port(text, address):
    assert split_address(text) == address
    assert read(make(Kind.ADDRESS), text) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("6388", "port"),
        ("localhost", "port"),
        ("localhost:", "port"),
        ("localhost:65536", "port from 0 to 65535"),
        ("localhost:-1", "port"),
        ("localhost:+1", "port"),
        ("localhost:1_0", "port"),
        ("localhost:٣", "port"),
        ("localhost:http", "port"),
        ("[::1]", "port"),
        ("::1:6388", "brackets"),
        (":6388", r"every interface is spelled \*:6388"),
        ("[]:6388", "host"),
        ("[localhost]:6388", "host"),
        ("a b:6388", "host"),
        (" localhost:6388", "host"),
        ("tcp://localhost:6388", "brackets"),
        ("a/b:6388", "host"),
        ("[::1\n]:6388", "brackets"),
    ],
)
def test_an_address_that_cannot_be_is_refused(text, complaint):
    with pytest.raises(ConfigError, match=complaint):
        split_address(text)
    with pytest.raises(ConfigError, match=rf"^thing must be HOST:PORT .*{complaint}"):
        read(make(Kind.ADDRESS), text)


def test_an_address_may_be_off_but_a_host_may_not_be_an_address():
    assert read(make(Kind.ADDRESS), "off") == "off"
    assert read(make(Kind.HOST), "::1") == "::1"
    assert read(make(Kind.HOST), "off") == "off"
    for text in ("a b", "localhost:1", "[x]"):
        with pytest.raises(ConfigError, match="a host name or an IP address"):
            read(make(Kind.HOST), text)


@given(st.sampled_from(["localhost", "10.0.0.1", "::1", "fe80::1%eth0", "a-b.c"]), st.integers(0, PORT_MAX))
def test_joining_and_splitting_an_address_gives_it_back(host, port):
    assert split_address(join_address(host, port)) == (host, port)


def test_joining_keeps_brackets_and_the_star():
    assert join_address("[::1]", 1) == "[::1]:1"
    assert join_address("*", 1) == "*:1"


@given(st.text())
def test_any_text_is_split_or_refused_as_an_address(text):
    try:
        host, port = split_address(text)
    except ConfigError:
        return
    assert 0 <= port <= PORT_MAX
    assert host or text.startswith("*:")


@pytest.mark.parametrize(
    ("url", "choice"),
    [
        ("memory:", StoreChoice("memory")),
        ("memory:?", StoreChoice("memory")),
        ("memory:?fence=f", StoreChoice("memory", fence_file="f")),
        ("memory:?fence=/var/lib/a b+c=d", StoreChoice("memory", fence_file="/var/lib/a b+c=d")),
        ("memory:?fence=/x%26y%3Fz%25", StoreChoice("memory", fence_file="/x&y?z%")),
        ("memory:?fence=%FF", StoreChoice("memory", fence_file="\udcff")),
        ("sqlite:holdfast.db", StoreChoice("sqlite", path="holdfast.db")),
        ("sqlite:/var/lib/hold fast/a.db", StoreChoice("sqlite", path="/var/lib/hold fast/a.db")),
        ("sqlite:what%3Fever%25?", StoreChoice("sqlite", path="what?ever%")),
        ("sqlite:%FF", StoreChoice("sqlite", path="\udcff")),
        ("sqlite:C:a", StoreChoice("sqlite", path="C:a")),
    ],
)
def test_a_store_url_is_taken_apart(url, choice):
    assert parse_store(url) == choice
    assert read(make(Kind.STORE), url) == url


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("memory", "unknown; there is: sqlite:, memory:"),
        ("redis:", "'redis:' is unknown; there is: sqlite:, memory:"),
        ("Memory:", "unknown; there is: sqlite:, memory:"),
        ("memory:x", "takes no path, but has 'x'"),
        ("memory:?fense=f", "unknown option 'fense'; there is: fence"),
        ("memory:?fence=f&x=1", "unknown option 'x'; there is: fence"),
        ("memory:?fence=f&", "unknown option ''; there is: fence"),
        ("memory:?fence=f&fence=g", "'fence' is given twice"),
        ("memory:?fence=", "'fence' needs a value"),
        ("memory:?fence", "'fence' needs a value"),
        ("memory:?fence=a%00b", "'fence' needs a value without a NUL"),
        ("sqlite:", "sqlite: needs the path of a file"),
        ("sqlite:?fence=f", "sqlite: needs the path of a file"),
        ("sqlite:a%00b", "sqlite: needs the path of a file, without a NUL"),
        ("sqlite:a?fence=f", "unknown option 'fence'; there is: none"),
    ],
)
def test_a_store_that_does_not_exist_is_refused_with_a_list_of_what_does(url, complaint):
    with pytest.raises(ConfigError, match=complaint):
        parse_store(url)
    with pytest.raises(ConfigError, match=rf"^thing must be a store URL.*{complaint}"):
        read(make(Kind.STORE), url)
