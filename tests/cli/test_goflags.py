"""Go's flag dialect, case by case.

What flags mean to a command is tested with the command.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.goflags import Flag, FlagError, HelpAsked, Parsed, Type, parse, usage

FLAGS = {
    flag.name: flag
    for flag in (
        Flag("port", Type.INT, "6388", "A port."),
        Flag("debug", Type.BOOL, "", "Talk more."),
        Flag("host", Type.STRING, '"localhost"', "A host."),
    )
}


@pytest.mark.parametrize("arguments", [["-port", "1"], ["--port", "1"], ["-port=1"], ["--port=1"]])
def test_one_dash_or_two_and_a_space_or_an_equals_sign_are_the_same(arguments):
    assert parse(arguments, FLAGS) == Parsed({"port": "1"}, [])


def test_no_arguments_give_no_values():
    assert parse([], FLAGS) == Parsed({}, [])


def test_all_flags_together_in_any_order():
    parsed = parse(["-debug", "--host", "h", "-port=2"], FLAGS)
    assert parsed == Parsed({"debug": "true", "host": "h", "port": "2"}, [])


def test_the_last_of_a_repeated_flag_wins():
    assert parse(["-port=1", "-port=2", "-debug", "-debug=false"], FLAGS).values == {"port": "2", "debug": "false"}


def test_a_value_may_be_empty_start_with_a_dash_or_hold_an_equals_sign():
    assert parse(["-host="], FLAGS).values == {"host": ""}
    assert parse(["-host", ""], FLAGS).values == {"host": ""}
    assert parse(["-host=a=b"], FLAGS).values == {"host": "a=b"}
    assert parse(["-host", "--debug"], FLAGS).values == {"host": "--debug"}
    assert parse(["-host", "--", "-debug"], FLAGS).values == {"host": "--", "debug": "true"}


@pytest.mark.parametrize("word", ["1", "t", "T", "true", "TRUE", "True"])
def test_words_for_true(word):
    assert parse([f"-debug={word}"], FLAGS).values == {"debug": "true"}


@pytest.mark.parametrize("word", ["0", "f", "F", "false", "FALSE", "False"])
def test_words_for_false(word):
    assert parse([f"--debug={word}"], FLAGS).values == {"debug": "false"}


def test_a_boolean_takes_its_value_only_behind_an_equals_sign():
    assert parse(["-debug", "false"], FLAGS) == Parsed({"debug": "true"}, ["false"])


@pytest.mark.parametrize("word", ["", "yes", "no", "tRUE", "2", " 1"])
def test_another_word_is_no_boolean(word):
    with pytest.raises(FlagError) as caught:
        parse([f"-debug={word}"], FLAGS)
    assert str(caught.value) == f'invalid boolean value "{word}" for -debug: parse error'


@pytest.mark.parametrize(
    ("arguments", "rest"),
    [
        (["x", "-debug"], ["x", "-debug"]),
        (["-", "-debug"], ["-", "-debug"]),
        (["", "-debug"], ["", "-debug"]),
        (["--", "-debug"], ["-debug"]),
        (["--", "--"], ["--"]),
        (["--"], []),
    ],
)
def test_flags_end_at_two_dashes_or_at_the_first_argument_that_is_none(arguments, rest):
    assert parse(arguments, FLAGS) == Parsed({}, rest)


@pytest.mark.parametrize("argument", ["-nope", "--nope", "--nope=1", "-PORT", "-p", "-ports", "-version=1"])
def test_an_unknown_flag_is_refused_in_the_words_of_go(argument):
    name = argument.lstrip("-").partition("=")[0]
    with pytest.raises(FlagError) as caught:
        parse([argument, "1"], FLAGS)
    assert str(caught.value) == f"flag provided but not defined: -{name}"


@pytest.mark.parametrize("argument", ["---port", "-=1", "--=1", "----"])
def test_bad_syntax_is_refused_in_the_words_of_go(argument):
    with pytest.raises(FlagError) as caught:
        parse([argument], FLAGS)
    assert str(caught.value) == f"bad flag syntax: {argument}"


@pytest.mark.parametrize("name", ["port", "host"])
def test_a_missing_value_is_refused_in_the_words_of_go(name):
    with pytest.raises(FlagError) as caught:
        parse(["-debug", f"--{name}"], FLAGS)
    assert str(caught.value) == f"flag needs an argument: -{name}"


@pytest.mark.parametrize("argument", ["-h", "--h", "-help", "--help", "-help=1"])
def test_help_can_be_asked_for(argument):
    with pytest.raises(HelpAsked):
        parse(["-debug", argument, "-nope"], FLAGS)


def test_a_flag_of_the_caller_beats_the_meaning_of_h():
    assert parse(["-h"], {"h": Flag("h", Type.BOOL, "", "Hot.")}).values == {"h": "true"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("+7", "7"),
        ("-7", "-7"),
        ("1_000", "1000"),
        ("0x1F", "31"),
        ("0X_1f", "31"),
        ("0b101", "5"),
        ("0B1_0", "2"),
        ("0o17", "15"),
        ("0O17", "15"),
        ("017", "15"),
        ("0_7", "7"),
        ("-0x10", "-16"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("0x" + "0" * 99 + "7fffffffffffffff", "9223372036854775807"),
    ],
)
def test_integers_are_written_as_in_go(text, value):
    assert parse([f"-port={text}"], FLAGS).values == {"port": value}


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1\n", "08", "1__0", "_1", "1_", "0x", "0b2", "1.0", "1e3", "x", "٣", "--1"]
)
def test_what_is_no_integer_in_go_is_refused(text):
    with pytest.raises(FlagError, match=r"for flag -port: parse error$"):
        parse([f"-port={text}"], FLAGS)


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "9" * 5000, "0x" + "f" * 17])
def test_an_integer_beyond_64_bits_is_out_of_range(text):
    with pytest.raises(FlagError) as caught:
        parse([f"-port={text}"], FLAGS)
    assert str(caught.value) == f'invalid value "{text}" for flag -port: value out of range'


def test_an_error_stays_on_one_line_whatever_was_typed():
    with pytest.raises(FlagError) as caught:
        parse(['-port=a"\\\n\x1b'], FLAGS)
    assert str(caught.value) == r'invalid value "a\"\\\n\x1b" for flag -port: parse error'


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["d", "#x", "#b", "#o", "_d", "+d"]))
def test_every_64_bit_integer_is_read_in_every_spelling(number, spelling):
    assert parse([f"--port={number:{spelling}}"], FLAGS).values == {"port": str(number)}


@given(st.lists(st.sampled_from(["-port", "--debug", "-host=h", "--", "-", "x", "7", "---", "-=", "-nope", ""])))
def test_any_command_line_is_parsed_or_refused(arguments):
    try:
        parsed = parse(arguments, FLAGS)
    except FlagError:
        return
    assert parsed.values.keys() <= FLAGS.keys()
    assert arguments[len(arguments) - len(parsed.rest) :] == parsed.rest


def test_usage_lists_the_flags_by_name_with_type_help_and_default():
    assert usage("thing", FLAGS.values()) == (
        "Usage of thing:\n"
        "  -debug\n    \tTalk more.\n"
        '  -host string\n    \tA host. (default "localhost")\n'
        "  -port int\n    \tA port. (default 6388)\n"
    )
