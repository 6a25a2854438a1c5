"""What is called a secret is not written down beside the values."""

from __future__ import annotations

import pytest

from nbcheckpoint.codec.preview import preview
from nbcheckpoint.events import emit, subscribe
from nbcheckpoint.model import Event, Reason, Step
from nbcheckpoint.redact import HIDDEN, is_secret, redact, redact_source
from nbcheckpoint.store import open_store
from tests.stores import draft


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "DB_PASSWORD",
        "password2",
        "apiKey",
        "api_key_3",
        "auth_token",
        "oauthToken",
        "AWS_SECRET_ACCESS_KEY",
    ],
)
def test_names_that_say_so(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["tokens", "token_ids", "n_tokens", "tokenizer", "key", "sort_key", "secretary", "pass_rate", "author", ""]
)
def test_names_that_only_look_like_it(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ('connect(user="ada", password="hun\\"ter2")', 'connect(user="ada", password="<hidden>")'),
        ("token = 'a' ; other = 'b'", "token = '<hidden>' ; other = 'b'"),
        ('password: str = "x"', 'password: str = "<hidden>"'),
        ('d["password"] = b"x"', 'd["password"] = b"<hidden>"'),
        ('{"api_key": "k", "user": "ada"}', '{"api_key": "<hidden>", "user": "ada"}'),
        ('if password == "x": pass', 'if password == "<hidden>": pass'),
        ('password = """a\nb"""', 'password = """<hidden>"""'),
        ('password = os.environ["PASSWORD"]', 'password = os.environ["PASSWORD"]'),
        ('open("postgresql://ada:pw@db/x")', 'open("postgresql://ada:<hidden>@db/x")'),
        ("def f(x): return x", "def f(x): return x"),
    ],
)
def test_literal_secrets_in_code(source: str, kept: str) -> None:
    assert redact_source(source) == kept


def test_the_values_of_secret_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "hunter2hunter2")
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2hunter2-and-more")
    monkeypatch.setenv("SHORT_PASSWORD", "a")
    monkeypatch.setenv("SHOP_REGION", "north-by-northwest")
    text = "a: hunter2hunter2, hunter2hunter2-and-more, north-by-northwest"
    assert redact(text) == f"a: {HIDDEN}, {HIDDEN}, north-by-northwest"
    assert redact("cannot log in with rosebud", ["rosebud", 7]) == f"cannot log in with {HIDDEN}"


def test_previews_hide_what_has_such_a_name_at_any_depth() -> None:
    assert preview("rosebud", "password") == HIDDEN
    assert preview({"user": "ada", "db": {"password": "rosebud"}}) == "{'db': {'password': <hidden>}, 'user': 'ada'}"
    assert preview(dict.fromkeys(range(10), 0)) == "{0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, ...}"


def test_the_value_itself_is_saved_and_its_record_does_not_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "hunter2hunter2")
    with open_store("memory://") as store:
        values = {"password": "rosebud-rosebud", "x": "hunter2hunter2"}
        saved = store.save(draft(source='password = "rosebud-rosebud"', name="t = 'hunter2hunter2'"), values).checkpoint
        reason = Reason(code="damaged", text="hunter2hunter2 is wrong")
        store.put_step(Step(run="r", address="000000", name="s", error="hunter2hunter2", reason=reason))
        assert store.restore(saved.id) == values
        stored = b"".join(entry.value for entry in store.backend.scan())
    assert b"rosebud-rosebud" not in stored
    assert b"hunter2hunter2" not in stored


def test_events_do_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "hunter2hunter2")
    heard: list[Event] = []
    end = subscribe(heard.append)
    emit("store_error", error="cannot log in with hunter2hunter2", bytes=3)
    end()
    assert heard[0].data == {"error": f"cannot log in with {HIDDEN}", "bytes": 3}
