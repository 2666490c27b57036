"""What names a person stays in the process: values become keyed tokens, and come back where a person reads them."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import zlib
from pathlib import Path

import pytest
import structlog
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from stef import consume
from stef.apprules import NO_RULES
from stef.config import resolve
from stef.errors import ConsumerError, SettingError
from stef.judge.dossier import variables
from stef.judge.private import _veil as _veil_of
from stef.judge.private import hiding
from stef.judge.untrusted import shorten
from stef.leaving import kinds
from stef.pipeline import build
from stef.privacy import Contents, Tokens, Veil, veiled
from stef.privacy.checks import CHECKS
from stef.record import Message
from stef.result import JudgeKind, Judgement, JudgeReason, Outcome, Specs, Verdict, to_json
from stef.rulefiles import compile_rules
from stef.store import Store
from tests.openai_server import MODEL, says, serve
from tests.records import judged, load

PROMPTS = Path(__file__).parents[1] / "prompts"
TOKENS = Tokens(b"a key of the tests")
HIDE = hiding(kinds(), TOKENS)
_TOKEN = re.compile(r"\b([a-z]+)_[0-9a-f]{12}(?![0-9a-f])")
_SHOWN = ("question", "expansion", "sql", "facts", "rules")


def _veil(question="", sql="", *, tokens=TOKENS, rules=NO_RULES, dialect="postgres"):
    said = Contents(question=question, expansion="", sql=sql, dialect=dialect, specs=Specs(), alignment=None)
    return veiled(kinds(), tokens, said, rules)


def _case(case):
    return judged({**case, "app_rules": case.get("rules", {})})


def _numbered(*texts):
    """Tokens as {kind1}, {kind2} … in the order in which the texts have them, the SQL first."""
    known: dict[str, str] = {}
    counts: dict[str, int] = {}

    def one(found):
        if found[0] not in known:
            counts[found[1]] = counts.get(found[1], 0) + 1
            known[found[0]] = f"{{{found[1]}{counts[found[1]]}}}"
        return known[found[0]]

    return [_TOKEN.sub(one, text) for text in texts]


# ── what is hidden ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("case", load("privacy/patterns"))
def test_a_pattern_finds_its_values_and_no_near_miss(case):
    """What has the form of a mail, a phone, a card or an identity number is found, and what fails its check is not."""
    found = sorted(kinds().find(case["text"]), key=lambda item: item.start)
    assert case["found"] == [f"{item.kind}:{case['text'][item.start : item.end]}" for item in found]


@pytest.mark.parametrize("case", load("privacy/records"))
def test_values_are_hidden_and_the_rest_stays(case):
    """One value has one token in question and SQL; numbers, dates, formats, codes and names of columns stay."""
    hidden, _ = HIDE(_case(case))
    sql, question = _numbered(hidden.statement, hidden.record.question)
    assert (case["hidden_question"], case["hidden_sql"]) == (question, sql)


@pytest.mark.parametrize("case", load("privacy/records"))
def test_what_is_found_says_no_hidden_value(case):
    """Facts, alignment and rules are hidden with the texts that they were read from."""
    original = _case(case)
    hidden, _ = HIDE(original)
    shown = variables(hidden, "0" * 16)
    veil = _veil_of(kinds(), TOKENS, original)
    for value in veil.tokens.values():
        word = re.compile(rf"(?<![^\W_]){re.escape(value)}(?![^\W_])", re.IGNORECASE)
        found = [name for name in _SHOWN if word.search(re.sub(r"\bis_active\b", "", shown[name]))]
        assert [] == found, value


def test_a_model_is_told_what_tokens_are():
    """A case with hidden values says what tokens are and which are parts of others; one without says nothing."""
    case = judged(
        {"question": "Orders of Stone", "sql": "SELECT * FROM orders WHERE name = 'Ada Stone' AND city = 'Turku'"}
    )
    first, *parts = HIDE(case)[0].notes
    assert "the same word always for the same value" in first
    assert 1 == len(parts)
    assert re.fullmatch(r"name_\w{12} is a part of name_\w{12}", parts[0])
    assert () == HIDE(judged({"question": "How many orders?", "sql": "SELECT COUNT(*) FROM orders"}))[0].notes


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_every_check_is_used(name):
    """A check digit that no kind asks for would be forgotten code."""
    assert name in {kind.check.__name__ for kind in kinds().kinds if kind.check}


def test_a_broken_statement_is_hidden_too():
    """What sqlglot cannot take apart is scanned: strings are hidden, and so is every value outside of them."""
    veil = _veil("Orders of Ada Stone", "SELECT * FROM orders WHERE name = 'Ada Stone' AND note = 'x")
    assert "Ada" not in veil.code("SELECT * FROM orders WHERE name = 'Ada Stone' AND note = 'x")


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────────────────

_NAMES = st.text("abcdefghijklmnopqrstuvwxyzäéøß", min_size=4, max_size=12).map(str.title)
_VALUES = st.one_of(
    _NAMES,
    st.tuples(_NAMES, _NAMES).map(" ".join),
    _NAMES.map(lambda name: f"{name.lower().encode('ascii', 'ignore').decode() or 'x'}@example.org"),
    st.sampled_from(["4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00", "219-09-9999", "+49 170 1234567", "王伟明"]),
)


@given(st.lists(_VALUES, min_size=1, max_size=4, unique=True), st.text(max_size=80))
@settings(max_examples=150, deadline=None)
def test_hidden_and_restored_is_as_before(values, around):
    """Whatever stands around the values, a text comes back as it was."""
    text = around + " " + ", ".join(values) + " " + around
    veil = _veil(text)
    for value in values:
        veil.hide(value)
    veil.say_as(text)
    spelt = set(map(str.casefold, values))
    assume(all(text.casefold().count(value) == 1 for value in spelt))
    assert text == veil.restore(veil.prose(text))


@given(_VALUES, _VALUES, st.sampled_from(["=", "<>", "LIKE"]))
@settings(max_examples=60, deadline=None)
def test_no_hidden_value_is_shown(one, other, operator):
    """However a value is spelt in question and SQL, nothing that a model is shown has it."""
    assume(not any(map(kinds().is_plain, (one, other))))
    assume(one.casefold() != other.casefold() and not {one.casefold(), other.casefold()} & {"name", "city", "orders"})
    case = judged(
        {
            "question": f"How many orders has {one.upper()} in '{other}'?",
            "sql": f"SELECT COUNT(*) FROM orders WHERE name {operator} '{one}' AND city = '{other.lower()}'",
        }
    )
    shown = variables(HIDE(case)[0], "0" * 16)
    text = "\n".join(shown[name] for name in _SHOWN).casefold()
    assert [] == [value for value in (one, other) if re.search(rf"\b{re.escape(value.casefold())}\b", text)]


@given(_VALUES)
@settings(max_examples=60, deadline=None)
def test_two_records_with_one_value_have_one_token(value):
    """Under one key a value has the same token in every record, and under another key another one."""
    first = _veil(f"about '{value}'").hide(value)
    second = _veil("", f"SELECT * FROM t WHERE a = '{value.lower()}'").hide(value.upper())
    assert first == second
    assert first != _veil(tokens=Tokens(b"another")).hide(value)


def test_a_token_that_stands_in_the_text_is_not_given():
    """A token by chance in the record's own texts would be restored to what nobody said."""
    plain = _veil("Ada").hide("Ada")
    assert plain != _veil(f"Ada and {plain}").hide("Ada")


def test_a_token_of_nobodys_is_left_alone():
    """A model may make up a token; it stays as it is, and a known one comes back in any case."""
    veil = _veil("Orders of 'Ada'")
    token = veil.hide("Ada")
    assert f"Ada but name_{'0' * 12}" == veil.restore(f"{token.upper()} but name_{'0' * 12}")


@given(st.integers(0, 60), st.integers(100, 140))
def test_a_token_is_never_cut(before, limit):
    """What is cut from a long text is cut beside a token, and the count of what is left out stays right."""
    token = _veil("'Ada'").hide("Ada")
    text = "x" * before + " " + " ".join([token] * 20)
    body, omitted = shorten(text, limit)
    pieces = re.split(r"\n\[… \d+ characters left out here …\]\n", body)
    assert len(text) - omitted == sum(map(len, pieces))
    assert set() == {word for piece in pieces for word in piece.split() if set(word) != {"x"}} - {token}


# ── on the way to a model ────────────────────────────────────────────────────────────────────────────────────────────

RECORD = {
    "event_id": "p-1",
    "question": "How many parcels did Ada Stone send to 'Turku Harbour', card 4111 1111 1111 1111?",
    "expanded_question": "Count parcels of Ada Stone (ada@example.org) to Turku Harbour.",
    "sql": "SELECT COUNT(*) AS ada_parcels FROM parcels /* for Ada */ WHERE sender = 'ada stone' "
    "AND place = 'Turku Harbour' "
    "AND note LIKE '%fragile goods%' AND card = 4111111111111111",
    "dialect": "postgres",
    "app_rules": {"value_synonyms": {"place": {"the port": "Turku Harbour"}}},
}
SECRETS = ("ada", "stone", "turku", "harbour", "4111", "example.org", "fragile")


def _settings(folder, **more):
    return resolve({"rules": str(folder), "store": str(folder / "stef.db"), "catalogue": "none", **more})


def _evaluate(chosen, *records):
    async def run():
        pipeline = build(chosen)
        found = [await pipeline.evaluate(Message(value=json.dumps(record).encode())) for record in records]
        await pipeline.close()
        return [part for parts in found for part in parts]

    return asyncio.run(run())


def _explains(number, body):
    """Say back the tokens that the prompt has, and one that it has not."""
    del number
    text = body["messages"][-1]["content"]
    sender = re.search(r"sender = '(name_\w{12})'", text)[1]
    place = re.search(r"place = '(name_\w{12})'", text)[1]
    told = f"It asks for {sender} in {place}, not name_{'0' * 12}."
    return says(json.dumps({"verdict": "CORRECT", "confidence": 90, "reasons": [], "explanation": told}))


def test_what_goes_to_a_model_has_no_value_and_its_reply_says_them(tmp_path):
    """The bytes that an endpoint gets hold no literal of the record; the explanation that a person reads does."""
    with serve(_explains) as endpoint:
        chosen = _settings(
            tmp_path, judge="llm", model=MODEL, api_base=endpoint.url, prompts=str(PROMPTS), pseudonymize=True
        )
        (found,) = _evaluate(chosen, RECORD)
    sent = json.dumps([endpoint.requests, endpoint.headers], ensure_ascii=False).casefold()
    assert [] == [word for word in SECRETS if word in sent.replace("standard", "")]
    assert Outcome.SCORED is found.outcome
    told = [reason.detail for reason in found.judge.reasons]
    assert any(f"It asks for Ada Stone in Turku Harbour, not name_{'0' * 12}." in text for text in told)
    assert RECORD["question"] == found.question
    assert '"pseudonymize": true' in found.provenance.parameters


def test_hiding_is_another_scoring_configuration(tmp_path):
    """What a model sees decides its verdict, so results with and without are not of one kind."""
    given = {"judge": "llm", "model": MODEL, "api_base": "http://127.0.0.1:9", "prompts": str(PROMPTS)}
    plain, hidden, again = (
        build(_settings(tmp_path, **given, **more)).judge.identity
        for more in ({}, {"pseudonymize": True}, {"pseudonymize": True, "privacy_key": "k"})
    )
    assert plain != hidden == again


def test_a_judgement_is_restored_whole():
    """Only the words of the reasons change; codes, verdict and confidence are the judge's."""
    case = judged({"question": "Orders of 'Ada'", "sql": "SELECT * FROM orders WHERE name = 'Ada'"})
    hidden, restore = HIDE(case)
    token = _TOKEN.search(hidden.statement)[0]
    given = Judgement(
        kind=JudgeKind.LLM, verdict=Verdict.CORRECT, confidence=0.9, reasons=(JudgeReason(code="ok", detail=token),)
    )
    assert restore(given) == Judgement(
        kind=JudgeKind.LLM, verdict=Verdict.CORRECT, confidence=0.9, reasons=(JudgeReason(code="ok", detail="Ada"),)
    )


def test_a_key_of_the_process_is_told_once(tmp_path):
    """Without a key tokens cannot be compared between runs: the log says so, and says nothing when there is one."""
    structlog.reset_defaults()  # a command that ran before may have set a higher level
    for more, count in (({}, 1), ({"privacy_key": "k"}, 0)):
        with capture_logs() as told:
            build(_settings(tmp_path, redact_store=True, **more))
        assert count == sum("no privacy key" in line["event"] for line in told)


# ── in what is stored and emitted ────────────────────────────────────────────────────────────────────────────────────


def test_a_redacted_store_has_no_value_in_its_bytes(tmp_path):
    """After a run with redact_store neither the file nor anything packed in it has a value of the records."""
    log = tmp_path / "log.jsonl"
    records = [{**RECORD, "event_id": f"p-{i}", "question": f"{RECORD['question']} ({i})"} for i in range(8)]
    refusal = {"event_id": "r", "question": "Where is Ada Stone?", "sql": "I cannot tell you where Ada Stone is."}
    log.write_text("".join(json.dumps(record) + "\n" for record in [*records, refusal]))
    out = tmp_path / "out.jsonl"
    (tmp_path / "c.yaml").write_text(
        f"source: {{kind: file, path: {log}}}\nrules: {{folder: {tmp_path}}}\n"
        "privacy: {redact_store: true, key: '${KEY}'}\n"
        f"sinks: [{{kind: store, path: {tmp_path / 'stef.db'}}}, {{kind: jsonl, path: {out}, specs: true}}]\n"
    )
    consumer = consume.read(str(tmp_path / "c.yaml"), {"KEY": "secret"})
    asyncio.run(consume.run(consumer, resolve(file=consumer.settings()), signals=False))
    with Store.open(str(tmp_path / "stef.db"), create=False) as store:
        assert (9, 0) == (store.count(), store.raw_count())
        kept = list(store.rows())
    packed = b"".join(_unpacked(tmp_path / "stef.db"))
    files = b"".join(path.read_bytes() for path in tmp_path.glob("stef.db*")) + out.read_bytes()
    text = (files + packed).decode("utf-8", "replace").casefold()
    assert [] == [word for word in SECRETS if word in text]
    places = {_TOKEN.findall(result.sql) and re.search(r"place = '(\w+)'", result.sql)[1] for result in kept[:8]}
    assert 1 == len(places)


def _unpacked(path):
    """Whatever is compressed in a column of the file."""
    with sqlite3.connect(path) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                for cell in row:
                    if isinstance(cell, bytes):
                        try:
                            yield zlib.decompress(cell)
                        except zlib.error:
                            yield cell


def test_what_leaves_redacted_is_scored_as_the_original(tmp_path):
    """Hiding changes texts alone: figures, keys and digests of a result are those of the record as it came."""
    (plain,) = _evaluate(_settings(tmp_path), RECORD)
    (hidden,) = _evaluate(_settings(tmp_path, redact_store=True, privacy_key="k"), RECORD)
    names = (
        "phi",
        "band",
        "p_offline",
        "p_correct",
        "score",
        "content_digest",
        "event_key",
        "scoring_config",
        "outcome",
    )
    assert [getattr(plain, name) for name in names] == [getattr(hidden, name) for name in names]
    assert [] == [word for word in SECRETS if word in to_json(hidden, specs=True).casefold()]


def test_spans_of_a_redacted_question_hold(tmp_path):
    """A place in the question is a place in the question with tokens."""
    (hidden,) = _evaluate(_settings(tmp_path, redact_store=True, privacy_key="k"), RECORD)
    told = [item for item in hidden.spec.question.filters if item.span is not None]
    assert told
    assert [item.text for item in told] == [hidden.question[item.span.start : item.span.end] for item in told]


def test_the_same_key_gives_the_same_tokens_in_every_run(tmp_path):
    """Counts by value go on over runs."""
    chosen = _settings(tmp_path, redact_store=True, privacy_key="k")
    (first,), (second,) = _evaluate(chosen, RECORD), _evaluate(chosen, RECORD)
    assert first.sql == second.sql


def test_what_cannot_be_hidden_does_not_leave(tmp_path, monkeypatch):
    """A fault in hiding costs the record its score and its texts, never its secrecy."""
    monkeypatch.setattr(Veil, "prose", lambda *_: 1 / 0)
    structlog.reset_defaults()
    (found,) = _evaluate(_settings(tmp_path, redact_store=True, privacy_key="k"), RECORD)
    assert (Outcome.FAILED, "internal", "ZeroDivisionError") == (found.outcome, found.reason.value, found.detail)
    assert [] == [word for word in SECRETS if word in to_json(found, specs=True).casefold()]


# ── settings and rules ───────────────────────────────────────────────────────────────────────────────────────────────


def _consumer(tmp_path, privacy, environment=None):
    (tmp_path / "c.yaml").write_text(f"source: {{kind: file, path: x}}\nprivacy: {privacy}\n")
    return consume.read(str(tmp_path / "c.yaml"), environment or {})


def test_a_consumer_file_sets_privacy(tmp_path):
    """The block of the file becomes the settings."""
    found = _consumer(tmp_path, "{pseudonymize: true, redact_store: true, key: '${KEY}'}", {"KEY": "k"}).settings()
    chosen = resolve(file=found)
    assert (True, True, "k") == (chosen.pseudonymize, chosen.redact_store, chosen.privacy_key)


def test_a_privacy_key_in_a_file_is_refused(tmp_path):
    """A secret comes from the environment and stands in no file."""
    with pytest.raises(ConsumerError, match=r"privacy\.key"):
        _consumer(tmp_path, "{key: hunter2}")


def test_an_unknown_privacy_key_is_refused(tmp_path):
    """A misspelt key would leave values in the clear."""
    with pytest.raises(ConsumerError, match="pseudonymize"):
        _consumer(tmp_path, "{pseudonymise: true}")


def test_privacy_is_off_by_default_and_strict():
    """Nothing is hidden unless asked for, and what is no truth value is refused."""
    assert (False, False, "") == (resolve().pseudonymize, resolve().redact_store, resolve().privacy_key)
    with pytest.raises(SettingError, match="pseudonymize"):
        resolve({"pseudonymize": "perhaps"})


def test_private_keys_of_the_rules_belong_to_the_operator():
    """A record cannot name private values; the file can."""
    rules = compile_rules({"private_values": ["Heron"], "private_columns": ["employee_id"]})
    assert (("Heron",), ("employee_id",)) == (rules.private_values, rules.private_columns)
