"""`consumers/<name>.yaml`: what a consumer reads, how, and where results go. Strict: an unknown key is an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from stef.config import SETTINGS
from stef.errors import ConsumerError, nearest

_VARIABLE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_SECRET = re.compile(r"password|passwd|secret|token|api_?key|credential", re.IGNORECASE)


def _listed(value: object) -> object:
    """A single text counts as a list of one; commas separate brokers."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


Texts = Annotated[list[str], BeforeValidator(_listed)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileIn(_Strict):
    """A file of JSON lines, plain or gzip; `-` is standard input."""

    kind: Literal["file"]
    path: str
    follow: bool = Field(default=False, description="Wait for more at the end.")
    resume: bool | None = Field(
        default=None, description="Go on where the last run came to; by default when following."
    )


class _Cluster(_Strict):
    bootstrap: Texts = Field(default=[], description="host:port of some brokers.")
    options: dict[str, str | int | float | bool] = Field(default={}, description="Settings of kafka-python's clients.")


class KafkaIn(_Cluster):
    """Topics of a Kafka cluster."""

    kind: Literal["kafka"]
    bootstrap: Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)]
    topics: Texts = []
    pattern: str = Field(default="", description="Regular expression of topic names, in place of topics.")
    group: str = Field(default="", description="Consumer group; stef-<name> by default.")
    start: Literal["earliest", "latest"] | AwareDatetime = "earliest"
    instance: str = Field(default="", description="Name of a static member of the group.")
    session_seconds: float = Field(default=45.0, gt=0)
    poll_seconds: float = Field(default=300.0, gt=0)

    @model_validator(mode="after")
    def _one_of_both(self) -> KafkaIn:
        if bool(self.topics) == bool(self.pattern):
            raise ValueError("topics, or a pattern of their names, and not both")
        return self


class StoreOut(_Strict):
    """The store: decides what is a duplicate, and gives the figures for comparison."""

    kind: Literal["store"]
    path: str | None = None
    raw_days: int | None = Field(default=None, ge=0)


class JsonlOut(_Strict):
    """A file of JSON lines; `-` is standard output."""

    kind: Literal["jsonl"]
    path: str
    specs: bool = False


class KafkaOut(_Cluster):
    """A topic, keyed by event; without `bootstrap` on the source's cluster."""

    kind: Literal["kafka"]
    topic: str
    specs: bool = False


class PrometheusOut(_Strict):
    """`/metrics`, `/healthz` and `/readyz`; without a host on 127.0.0.1 only."""

    kind: Literal["prometheus"]
    address: str


class DeadLettersOut(_Cluster):
    """Where messages go that are no records: a file, or a topic (`{topic}` stands for the message's own)."""

    path: str = ""
    topic: str = ""

    @model_validator(mode="after")
    def _one_of_both(self) -> DeadLettersOut:
        if self.path and self.topic:
            raise ValueError("a path or a topic, and not both")
        return self


class RulesIn(_Strict):
    """The application's rules."""

    folder: str | None = None
    app: str | None = None
    trust_inline: bool | None = None


class JudgeIn(_Strict):
    """Who judges, and how."""

    kind: str | None = None
    calibration: str | None = None
    model: str | None = None
    api_base: str | None = None
    prompts: str | None = None
    prompt: str | None = None
    timeout: float | None = None
    retries: int | None = None
    max_outage: float | None = None
    on_outage: str | None = None
    low: float | None = Field(default=None, description="Of a cascade.")
    high: float | None = Field(default=None, description="Of a cascade.")
    rate: float | str | None = None
    samples: int | None = None
    temperature: float | None = None
    logprobs: str | None = None
    reply: str | None = None
    fallbacks: Texts = []
    concurrency: int | None = None
    tokens_per_minute: int | None = None
    budget: float | None = None
    price: str | None = None
    file: str | None = None
    cache: int | None = None
    recheck: float | None = None
    judge_calibration: str | None = None
    record: str | None = None
    replay: str | None = None
    schema_hint: str | None = None

    def settings(self) -> dict[str, Any]:
        """What it says, under the names of the settings."""
        plain = {name: value for name, value in self if name != "fallbacks"}
        named = {"kind": "judge", "low": "cascade_low", "high": "cascade_high"}
        own = {row.name for row in SETTINGS}
        found = {named.get(name, name if name in own else f"judge_{name}"): value for name, value in plain.items()}
        # `concurrency` alone is that of the records.
        found["judge_concurrency"] = found.pop("concurrency")
        return found | {"judge_fallbacks": ", ".join(self.fallbacks) or None}


class CatalogueIn(_Strict):
    """What stands in for a schema."""

    use: str | None = Field(default=None, description="auto, none, store, or a catalogue file.")
    days: float | None = None


class PrivacyIn(_Strict):
    """What must not leave as it is."""

    pseudonymize: bool | None = None
    redact_store: bool | None = None
    key: str | None = Field(default=None, description="Only as ${NAME} of the environment.")


class LimitsIn(_Strict):
    """Bounds of the loop; see `stef.stream.limits`."""

    concurrency: int | None = Field(default=None, ge=1)
    in_flight: int = Field(default=2000, ge=1)
    in_flight_mb: int = Field(default=64, ge=1)
    batch: int = Field(default=500, ge=1)
    batch_seconds: float = Field(default=0.5, gt=0)
    drain_seconds: float = Field(default=25.0, gt=0)


Input = Annotated[FileIn | KafkaIn, Field(discriminator="kind")]
Output = Annotated[StoreOut | JsonlOut | KafkaOut | PrometheusOut, Field(discriminator="kind")]


class Consumer(_Strict):
    """One consumer file. `path` is where it was read from."""

    path: str = ""
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    namespace: str = Field(default="", description="Space that event keys are unique in; the source's by default.")
    source: Input
    mapping: dict[str, Any] = {}
    rules: RulesIn = RulesIn()
    judge: JudgeIn = JudgeIn()
    catalogue: CatalogueIn = CatalogueIn()
    privacy: PrivacyIn = PrivacyIn()
    score_profile: str | None = Field(default=None, description="stef-1 or stef-2.")
    sinks: list[Output] = [StoreOut(kind="store")]
    dead_letters: DeadLettersOut = DeadLettersOut()
    limits: LimitsIn = LimitsIn()

    def settings(self) -> dict[str, Any]:
        """What the file says of the settings in `stef.config`, under their names there."""
        store = next((sink for sink in self.sinks if isinstance(sink, StoreOut)), None)
        exporter = next((sink for sink in self.sinks if isinstance(sink, PrometheusOut)), None)
        found = {
            "store": store and store.path,
            "raw_days": store and store.raw_days,
            "http": exporter and exporter.address,
            "rules": self.rules.folder,
            "app": self.rules.app,
            "trust_inline_rules": self.rules.trust_inline,
            "catalogue": self.catalogue.use,
            "score_profile": self.score_profile,
            "pseudonymize": self.privacy.pseudonymize,
            "redact_store": self.privacy.redact_store,
            "privacy_key": self.privacy.key,
            "catalogue_days": self.catalogue.days,
            "concurrency": self.limits.concurrency,
            **self.judge.settings(),
        }
        return {name: value for name, value in found.items() if value is not None}


def read(path: str, environment: Mapping[str, str]) -> Consumer:
    """Read a consumer file.

    Args:
        path: The file.
        environment: For `${NAME}` and `${NAME:-default}` in its texts; `$${` is a plain `${`.

    Raises:
        ConsumerError: It cannot be read, or something in it is wrong: says where, what was found, what is allowed.
    """
    try:
        raw = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConsumerError(path, "", error.strerror or str(error), "") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConsumerError(path, _line(error), "no YAML", "YAML in UTF-8") from error
    if not isinstance(raw, dict):
        raise ConsumerError(path, "", "no mapping at the top", ", ".join(Consumer.model_fields))
    filled = _fill(raw, environment, path, "")
    filled.setdefault("name", Path(path).stem)
    if "path" in filled:
        raise ConsumerError(path, "path", "an unknown key", nearest("path", _keys(Consumer)))
    try:
        return Consumer.model_validate({**filled, "path": path})
    except ValidationError as error:
        raise _explained(path, filled, error) from error


def _fill(value: Any, environment: Mapping[str, str], path: str, place: str) -> Any:  # noqa: ANN401 - YAML is untyped
    """Put the environment's values into texts, after parsing, so that none of them can be read as YAML."""
    if isinstance(value, dict):
        for key, item in value.items():
            if _is_secret(_at(place, key)) and isinstance(item, str) and not _VARIABLE.search(item):
                raise ConsumerError(path, _at(place, key), "a secret in the file", "${NAME} of the environment")
        return {str(key): _fill(item, environment, path, _at(place, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, environment, path, f"{place}[{number}]") for number, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def one(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if name is None:
            return "${"
        found = environment.get(name) or default
        if found is None:
            raise ConsumerError(
                path, place, f"${{{name}}}, which is not set or empty", f"set {name}, or write ${{{name}:-default}}"
            )
        return found

    return _VARIABLE.sub(one, value)


def _is_secret(place: str) -> bool:
    return place == "privacy.key" or _SECRET.search(place.rpartition(".")[2]) is not None


def _at(place: str, key: object) -> str:
    return f"{place}.{key}" if place else str(key)


def _line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""


def _explained(path: str, raw: dict[str, Any], error: ValidationError) -> ConsumerError:
    """One thing that is wrong, in the words of the file; a misspelt key before the one that is missing for it."""
    found = error.errors(include_url=False)
    first = next((item for item in found if item["type"] == "extra_forbidden"), found[0])
    steps = _steps(first["loc"])
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")
    kind, context = first["type"], first.get("ctx", {})
    if kind == "extra_forbidden":
        model = _model(raw, steps[:-1])
        return ConsumerError(path, place, "an unknown key", nearest(str(steps[-1]), _keys(model)))
    if kind == "missing":
        return ConsumerError(path, place, "nothing", "a value: it is needed")
    if kind == "union_tag_invalid":
        return ConsumerError(path, f"{place}.kind", repr(context["tag"]), context["expected_tags"].replace("'", ""))
    if kind == "union_tag_not_found":
        return ConsumerError(path, place, "no kind", "kind: " + " or ".join(_kinds(place)))
    allowed = str(context.get("expected") or context.get("error") or first["msg"])
    shown = first["input"]
    return ConsumerError(
        path, place, repr(shown) if isinstance(shown, str | int | float | bool) else type(shown).__name__, allowed
    )


_KINDS: dict[str, dict[str, type[BaseModel]]] = {
    "source": {"file": FileIn, "kafka": KafkaIn},
    "sinks": {"store": StoreOut, "jsonl": JsonlOut, "kafka": KafkaOut, "prometheus": PrometheusOut},
}


def _kinds(place: str) -> list[str]:
    return list(_KINDS["sinks" if place.startswith("sinks") else "source"])


def _steps(location: tuple[int | str, ...]) -> list[int | str]:
    """A place in the file, without the kinds and type names that pydantic puts between and after its steps."""
    found: list[int | str] = []
    for step in location:
        after_kind = (len(found) == 1 and found[0] == "source") or (len(found) == 2 and found[0] == "sinks")
        if after_kind and step in {**_KINDS["source"], **_KINDS["sinks"]}:
            continue
        found.append(step)
    return [
        step for step in found if not (isinstance(step, str) and ("[" in step or step in {"datetime", "str", "int"}))
    ]


def _model(raw: dict[str, Any], steps: list[int | str]) -> type[BaseModel]:
    """The model of the part of the file that a place is in."""
    parts: dict[str, type[BaseModel]] = {
        "rules": RulesIn,
        "judge": JudgeIn,
        "catalogue": CatalogueIn,
        "dead_letters": DeadLettersOut,
        "privacy": PrivacyIn,
        "limits": LimitsIn,
    }
    match steps:
        case ["source", *_]:
            return _KINDS["source"][raw["source"]["kind"]]
        case ["sinks", int(number), *_]:
            return _KINDS["sinks"][raw["sinks"][number]["kind"]]
        case [str(name), *_]:
            return parts[name]
        case _:
            return Consumer


def _keys(model: type[BaseModel]) -> list[str]:
    return [name for name in model.model_fields if model is not Consumer or name != "path"]
