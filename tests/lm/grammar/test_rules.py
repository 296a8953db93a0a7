"""Grammar files: what the notation means, and the sentence for each mistake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.errors import GrammarError
from kbforge_lm.grammar.skeleton import compile_skeleton
from tests.lm.grammar.decoding import written
from tests.profile import examples


@pytest.mark.parametrize(
    ("rules", "texts", "others"),
    [
        ('x = "a"', ["a"], ["", "aa"]),
        ("x = STRING", ['"a"', '"|"'], ["a", '"a""b"']),
        ('x = "a" "b" | "c"', ["ab", "c"], ["ac", "a", "abc"]),
        ('x = "a" ("b" | "c")', ["ab", "ac"], ["a", "c", "abc"]),
        ('x = "a"? "b" "c"?', ["b", "ab", "bc", "abc"], ["", "aab", "bcc"]),
        ('x = STRING* "a"', ["a", '"s"a', '"s""t"a'], ['"s"', "aa"]),
        ('x = STRING+ "a"', ['"s"a', '"s""t"a'], ["a", '"s"']),
        ('x = (STRING "b")* "c"', ["c", '"s"b"t"bc'], ["bc", '"s"c']),
        ('x = (("a"))', ["a"], ["", "(a)"]),
        # rules by name, in any order, several times
        ('x = y-1 y-1\ny-1 = "a" | z_\nz_ = "b"', ["aa", "ab", "ba", "bb"], ["a", "b", "aaa"]),
        # spaces are free, comments and blank lines are nothing, quotation marks protect
        ('\n  # the first\n\tx="a""b"  # "end"\n\n', ["ab"], ["a", "abend"]),
        ('x = "a # b" "(" "|" "*="', ["a # b(|*="], ["a # b(|*", "a # b(*="]),
        ('x = "a"\r\n', ["a"], ["a\r"]),
        # names that begin like STRING are names
        ('x = STRINGS\nSTRINGS = "a"', ["a"], ['"a"']),
    ],
)
def test_the_notation(rules, texts, others):
    skeleton = compile_skeleton(rules, "file")
    for text in texts:
        assert written(skeleton, skeleton.read(text)) == text
    for text in others:
        with pytest.raises(GrammarError):
            list(skeleton.read(text))


PART = "g:1: expected a literal, a name or a parenthesis, got "
NEXT = "g:1: expected a literal, a name or an operator, got "
REGULAR = "refers to itself; a grammar must be regular"
DEEP = "rules and parentheses are nested over 50 deep"
LONG = "g: the grammar is longer than 10,000 characters with every name replaced by its rule"
STATES = "g: the grammar needs more than 1,024 states"
ENDLESS = "g: literals can repeat for ever without a string or an end (after "


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ("", "g: expected a rule (name = ...), got none"),
        ("# only a comment\n\n", "g: expected a rule (name = ...), got none"),
        ('a = "x"\nb', "g:2: expected a rule (name = ...), got b"),
        ('\n\n"x" = a', 'g:3: expected a rule (name = ...), got "x" = a'),
        ('a = "x"\nb = "y"\na = "z"', 'g:3: the rule "a" is already defined'),
        ('STRING = "x"', 'g:1: the rule "STRING" is already defined'),
        ('a = "x"\n\nb = "y"', 'g:3: the rule "b" is not used'),
        ('a = "x"\nb = c\nc = b', 'g:2: the rule "b" is not used'),
        ("a = ", f"{PART}the end of the rule"),
        ('a = "x" |', f"{PART}the end of the rule"),
        ('a = | "x"', f"{PART}|"),
        ("a = ()", f"{PART})"),
        ("a = * STRING", f"{PART}*"),
        ("a = STRING**", f"{PART}*"),
        ('a = ""', f'{PART}""'),
        ('a = "x', f'{NEXT}"x'),
        ('a = "x" & "y"', f'{NEXT}& "y"'),
        ("a = 'x'", f"{NEXT}'x'"),
        ("a = STRING)", "g:1: expected the end of the rule, got )"),
        ("a = (STRING", "g:1: expected a closing parenthesis, got the end of the rule"),
        ("a = STRING\nb", "g:2: expected a rule (name = ...), got b"),
        ('# rules\na = "x" b', 'g:2: expected STRING or the name of a rule, got "b"'),
        ("a = string", 'g:1: expected STRING or the name of a rule, got "string"'),
        # recursion: direct, on the left, through another rule
        ('a = "x" a', f'g:1: the rule "a" {REGULAR}'),
        ('a = a | "x"', f'g:1: the rule "a" {REGULAR}'),
        ('a = b\nb = "(" c ")" | STRING\nc = b', f'g:2: the rule "b" {REGULAR}'),
        # what would take for ever or fill the memory
        ("a = " + "(" * 51 + "STRING" + ")" * 51, f"g:1: {DEEP}"),
        ("\n".join(f"a{i} = a{i + 1}" for i in range(60)) + '\na60 = "x"', f"g:51: {DEEP}"),
        ("\n".join(f"a{i} = a{i + 1} a{i + 1}" for i in range(40)) + '\na40 = "x"', LONG),
        (f'a = "{"x" * 10_000}"', LONG),
        (f'a = "{"x" * 1_024}" STRING', STATES),
        # the thirteenth letter before the string decides: 2^13 states remember it
        ('a = (STRING "a" | STRING "b")* STRING "a"' + ' (STRING "a" | STRING "b")' * 12, STATES),
        (
            "a = " + '("x" | "y")' * 13 + " STRING",
            "g: there are more than 4,096 ways from string to string",
        ),
        # endless symbols
        ('a = STRING ","* STRING', f"{ENDLESS},)"),
        ('a = ("ab" | "c")+ STRING', f"{ENDLESS}aba)"),
        ('a = ("x" | STRING)* ";"', f"{ENDLESS}x)"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_sentence(rules, sentence):
    with pytest.raises(GrammarError) as error:
        compile_skeleton(rules, "g")
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    "rules",
    [
        f'a = "{"x" * 1_000}" STRING',
        "a = " + "(" * 50 + "STRING" + ")" * 50,
        "a = " + '("x" | "y")' * 10 + " STRING",
        # nested repetitions do not multiply
        "a = " + "(" * 40 + '"x" STRING' + ")+" * 40,
        # a possible end breaks a run of literals
        'a = "x"+',
        'a = STRING | "ab"*',
    ],
)
def test_just_small_enough_is_accepted(rules):
    assert compile_skeleton(rules, "g").nodes


@given(st.text('ab=|()*+?"# \nSTRING', max_size=40))
@examples(300)
def test_any_other_text_is_an_error_with_a_sentence(rules):
    try:
        skeleton = compile_skeleton(rules, "g")
    except GrammarError as error:
        sentence = str(error)
    else:
        sentence = "g:"
        assert skeleton.nodes
    assert sentence.startswith("g:")
    assert "\n" not in sentence
