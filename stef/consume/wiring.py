"""Opens what a consumer file names, runs it, and closes it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import structlog

from stef import cataloguefiles
from stef.catalogue import Epoch
from stef.config import Settings
from stef.consume.file import Consumer, FileIn, JsonlOut, KafkaIn, KafkaOut, PrometheusOut, StoreOut
from stef.errors import ConsumerError, RecordError
from stef.ingest import FieldMapping
from stef.ingest import read as read_message
from stef.metrics import Exporter, Metrics
from stef.pipeline import build
from stef.record import Message, QueryRecord
from stef.result import Evaluation
from stef.store import Learning, Store
from stef.stream.deadletters import FileDeadLetters
from stef.stream.files import FileSource
from stef.stream.kafka import KafkaSettings, KafkaSource
from stef.stream.kafka_look import sample
from stef.stream.kafka_out import KafkaDeadLetters, KafkaSink
from stef.stream.limits import Limits
from stef.stream.loop import Loop
from stef.stream.protocols import DeadLetters, Evaluate, Sink, Source
from stef.stream.report import Report
from stef.stream.sinks import JsonlSink, PrometheusSink
from stef.version import __version__

log = structlog.get_logger("stef.consume")
# (message, event_key, content_digest, basis of the scoring configuration) → whether the store has an answer already.
Known = Callable[[Message, str, str, str], bool]


class MakeEvaluate(Protocol):
    """Builds what scores a message; `stack` takes what must be closed at the end."""

    async def __call__(
        self,
        settings: Settings,
        *,
        mapping: FieldMapping | None,
        known: Known,
        catalogues: Epoch | None,
        metrics: Metrics,
        stack: AsyncExitStack,
    ) -> Evaluate:
        """Build it."""
        ...


async def pipeline(
    settings: Settings,
    *,
    mapping: FieldMapping | None,
    known: Known,
    catalogues: Epoch | None,
    metrics: Metrics,
    stack: AsyncExitStack,
) -> Evaluate:
    """The product's own pipeline as `evaluate`."""
    built = build(settings, mapping=mapping, known=known).pinned(catalogues)
    stack.push_async_callback(built.close)
    for app, rules in built.rulebook.registry.items():
        metrics.rules(app, rules.digest)
    return built.evaluate


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A consumer that is wired and not started.

    Attributes:
        address: Host and port of the exporter; None without one.
    """

    loop: Loop
    store: Store | None
    metrics: Metrics
    address: tuple[str, int] | None


@asynccontextmanager
async def wired(
    consumer: Consumer,
    settings: Settings,
    *,
    make: MakeEvaluate = pipeline,
    on_flush: Callable[[Report], None] | None = None,
) -> AsyncIterator[Running]:
    """Open everything that a consumer needs, and close it at the end.

    Args:
        consumer: As read from its file.
        settings: The file's settings included.
        make: What builds `evaluate`.
        on_flush: See `Loop`.

    Raises:
        ConsumerError: The mapping is wrong.
        InputError: The input file cannot be opened.
        StoreError: The store cannot be opened.
        StreamError: A broker does not answer, or an output cannot be written.
        SettingError: The address of the exporter cannot be listened on.
    """
    _keep_apart(consumer)
    async with AsyncExitStack() as stack:
        metrics = Metrics()
        metrics.build(__version__)
        store = _store(consumer, settings, stack)
        catalogues = pinned(settings, store)
        metrics.catalogue(0 if catalogues is None else catalogues.questions)
        source = open_source(consumer, store)
        # Until the loop has it, nobody else would let go of the source.
        opened = stack.enter_context(ExitStack())
        opened.callback(source.close)
        known = partial(_known, store, source)
        mapping = field_mapping(consumer)
        evaluate = await make(
            settings, mapping=mapping, known=known, catalogues=catalogues, metrics=metrics, stack=stack
        )
        loop = Loop(
            source,
            evaluate,
            store=store,
            sinks=open_sinks(consumer, settings, metrics),
            dead_letters=open_dead_letters(consumer),
            limits=limits_of(consumer, settings),
            metrics=metrics,
            on_flush=on_flush,
        )
        opened.pop_all()
        yield Running(loop=loop, store=store, metrics=metrics, address=_exported(loop, settings, stack))


def _store(consumer: Consumer, settings: Settings, stack: AsyncExitStack) -> Store | None:
    """The store that the consumer writes to, old raw messages forgotten."""
    if not any(isinstance(sink, StoreOut) for sink in consumer.sinks):
        return None
    raw_days = 0 if settings.redact_store else settings.raw_days
    store = stack.enter_context(Store.open(settings.store, raw_days=raw_days, learning=learning(settings)))
    store.prune_raw()
    return store


def _exported(loop: Loop, settings: Settings, stack: AsyncExitStack) -> tuple[str, int] | None:
    """Where the loop's metrics and health are served; None when nobody asked for it."""
    if not settings.http:
        return None
    exporter = Exporter(loop.metrics, settings.http, alive=lambda: loop.alive, ready=lambda: loop.ready)
    return stack.enter_context(exporter).address


async def run(
    consumer: Consumer,
    settings: Settings,
    *,
    make: MakeEvaluate = pipeline,
    on_flush: Callable[[Report], None] | None = None,
    signals: bool = True,
) -> Report:
    """Run a consumer until its source ends or a signal comes; see `wired` and `Loop.run` for the errors."""
    async with wired(consumer, settings, make=make, on_flush=on_flush) as running:
        return await running.loop.run(signals=signals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What became of one message in a check.

    Attributes:
        position: Topic, partition, offset.
        records: As read, the mapping applied.
        evaluations: Their results; nothing was stored.
        errors: Why it, or a part of it, is no record.
    """

    position: str
    records: tuple[QueryRecord, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    errors: tuple[RecordError, ...] = ()


async def check(
    consumer: Consumer, settings: Settings, *, count: int = 5, make: MakeEvaluate = pipeline
) -> tuple[Checked, ...]:
    """Read a few messages and score them, joining no group, committing and storing nothing.

    The store is not opened, so that of the catalogues only a file can be used.

    Raises:
        ConsumerError: The mapping is wrong.
        InputError: The input file cannot be opened.
        StreamError: A broker does not answer, or a topic is not there.
    """
    mapping = field_mapping(consumer)
    messages = peek(consumer, count)
    async with AsyncExitStack() as stack:
        evaluate = await make(
            settings,
            mapping=mapping,
            known=_nothing_known,
            catalogues=pinned(settings, None),
            metrics=Metrics(),
            stack=stack,
        )
        return tuple([await _check(message, mapping, evaluate) for message in messages])


async def _check(message: Message, mapping: FieldMapping | None, evaluate: Evaluate) -> Checked:
    try:
        found = read_message(message, mapping=mapping, now=datetime.now(UTC))
        judged = await evaluate(message)
    except RecordError as error:
        return Checked(position=message.position, errors=(error,))
    return Checked(
        position=message.position,
        records=tuple(arrival.record for arrival in found.arrivals if arrival.record is not None),
        evaluations=tuple(part for part in judged if isinstance(part, Evaluation)),
        errors=found.rejected,
    )


def learning(settings: Settings) -> Learning | None:
    """How the store counts what records show; None when it does not."""
    return Learning(key=settings.catalogue_key) if settings.catalogue == "auto" else None


def pinned(settings: Settings, store: Store | None) -> Epoch | None:
    """What the run is pinned to: what the store has learned until now, a file's catalogue, or None.

    Raises:
        InputError: The catalogue file cannot be read.
        StoreError: The store cannot be read.
    """
    match settings.catalogue:
        case "none":
            return None
        case "auto" | "store":
            found = None if store is None else _learned(settings, store)
        case path:
            found = cataloguefiles.load(path, settings.catalogue_key).freeze()
    if found is not None:
        log.info("catalogue pinned", epoch=found.digest, databases=len(found.catalogues), questions=found.questions)
    return found


def _learned(settings: Settings, store: Store) -> Epoch | None:
    stored = store.catalogues(Learning(key=settings.catalogue_key))
    if stored.is_of_another_key():
        log.warning("the store's catalogue was made with another key; a new one begins", store=store.path)
    return stored.epoch(days=settings.catalogue_days, take=True)


def peek(consumer: Consumer, count: int) -> list[Message]:
    """A few messages: the first ones of a file, the last ones of topics."""
    match consumer.source:
        case FileIn(path=path):
            source = FileSource(path)
            try:
                return list(source.poll(1.0, count).messages)
            finally:
                source.close()
        case KafkaIn() as kafka:
            return sample(kafka_settings(consumer, kafka), count)


def field_mapping(consumer: Consumer) -> FieldMapping | None:
    """The field mapping; None when the file has none.

    Raises:
        ConsumerError: It is wrong.
    """
    if not consumer.mapping:
        return None
    try:
        return FieldMapping.of(consumer.mapping, place="mapping")
    except ValueError as error:
        raise ConsumerError(consumer.path, "", str(error), "") from error


def open_source(consumer: Consumer, store: Store | None) -> Source:
    """Open the source."""
    match consumer.source:
        case FileIn(path=path, follow=follow, resume=resume):
            remember = follow if resume is None else resume
            positions = store if remember else None
            return FileSource(path, follow=follow, positions=positions, namespace=consumer.namespace)
        case KafkaIn() as kafka:
            return KafkaSource(kafka_settings(consumer, kafka), namespace=consumer.namespace)


def open_sinks(consumer: Consumer, settings: Settings, metrics: Metrics) -> list[Sink]:
    """Open the sinks beside the store; the metrics come last, when all else holds the batch."""
    sinks: list[Sink] = []
    for sink in consumer.sinks:
        match sink:
            case JsonlOut(path=path, specs=specs):
                sinks.append(JsonlSink(path, specs=specs))
            case KafkaOut(topic=topic, specs=specs):
                sinks.append(KafkaSink(kafka_settings(consumer, sink), topic, specs=specs))
            case StoreOut() | PrometheusOut():
                pass
    if settings.http:
        sinks.append(PrometheusSink(metrics))
    return sinks


def _keep_apart(consumer: Consumer) -> None:
    """Refuse a sink that would write into the file that is read."""
    source = consumer.source.path if isinstance(consumer.source, FileIn) else "-"
    for number, sink in enumerate(consumer.sinks):
        path = sink.path if isinstance(sink, JsonlOut) else "-"
        if "-" not in {path, source} and Path(path).resolve() == Path(source).resolve():
            raise ConsumerError(consumer.path, f"sinks[{number}].path", f"{path}, which is the source", "another file")


def open_dead_letters(consumer: Consumer) -> DeadLetters:
    """Where dead letters go: as the file says, else beside the input file or to `<topic>.dlq`."""
    given = consumer.dead_letters
    if given.path:
        return FileDeadLetters(given.path)
    match consumer.source:
        case FileIn(path=path) if not given.topic:
            return FileDeadLetters(beside(path, consumer.name))
        case KafkaIn() | FileIn():
            settings = kafka_settings(consumer, given if given.bootstrap else consumer.source)
            return KafkaDeadLetters(settings, given.topic or "{topic}.dlq", consumer=consumer.name)


def beside(path: str, name: str) -> str:
    """`<name>.dlq.jsonl` beside an input file; in the working folder for standard input."""
    if path == "-":
        return f"{name}.dlq.jsonl"
    plain = Path(path).name.removesuffix(".gz").removesuffix(".jsonl")
    return str(Path(path).with_name(f"{plain}.dlq.jsonl"))


def limits_of(consumer: Consumer, settings: Settings) -> Limits:
    """The bounds of the loop."""
    given = consumer.limits
    return Limits(
        concurrency=settings.concurrency,
        in_flight=given.in_flight,
        in_flight_bytes=given.in_flight_mb * 1024 * 1024,
        batch=given.batch,
        batch_seconds=given.batch_seconds,
        drain_seconds=given.drain_seconds,
    )


def kafka_settings(consumer: Consumer, part: Any) -> KafkaSettings:  # noqa: ANN401 - a source, a sink or the dead letters
    """Cluster and credentials of a part of the file; a sink without its own uses the source's."""
    source = consumer.source
    cluster = part if part.bootstrap or not isinstance(source, KafkaIn) else source
    if not cluster.bootstrap:
        raise ConsumerError(consumer.path, "bootstrap", "nothing", "host:port of the brokers")
    given: Mapping[str, Any] = cluster.options
    if not isinstance(part, KafkaIn):
        return KafkaSettings(bootstrap=tuple(cluster.bootstrap), options=given)
    return KafkaSettings(
        bootstrap=tuple(part.bootstrap),
        topics=tuple(part.topics),
        pattern=part.pattern,
        group=part.group or f"stef-{consumer.name}",
        start=part.start,
        instance=part.instance,
        session_seconds=part.session_seconds,
        poll_seconds=part.poll_seconds,
        options=given,
    )


def _known(store: Store | None, source: Source, message: Message, key: str, digest: str, basis: str) -> bool:
    if store is None:
        return False
    return bool(store.known(source.namespace(message.topic), [(key, digest)], basis))


def _nothing_known(message: Message, key: str, digest: str, basis: str) -> bool:  # noqa: ARG001 - as `Known`
    return False
