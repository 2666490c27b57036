"""The files in deploy/ are well formed and agree with the product and with one another."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import stef
from stef import consume, errors
from stef.config import SETTINGS
from stef.consume.file import KafkaIn
from stef.stream.limits import Limits

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
UNIT = (DEPLOY / "stef@.service").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
PROMETHEUS = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))
DRAIN = int(Limits().drain_seconds)


def unit(key):
    """The values of a key of the unit, in their order."""
    return re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)


# ── the image ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_image_takes_packages_by_their_hashes_alone():
    """Nothing comes into the image whose bytes the lock does not know."""
    installs = re.findall(r"pip install (.*)", DOCKERFILE)
    assert ["--require-hashes -r requirements.lock", "--no-deps --no-build-isolation ."] == installs


def test_the_image_runs_without_rights():
    """The last user of the image is not root, and is a number, so that a cluster can check it."""
    *_, last = re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE)
    uid = re.search(r"--uid (\d+)", DOCKERFILE)
    assert uid is not None
    assert f"{uid[1]}:{uid[1]}" == last
    assert uid[1] != "0"


def test_the_image_has_a_python_that_stef_runs_on():
    """The interpreter of the image is one that the package allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = re.search(r"^ARG PYTHON=(\d+\.\d+)-slim", DOCKERFILE, re.MULTILINE)
    assert version is not None
    assert SpecifierSet(project["requires-python"]).contains(version[1])


def test_what_the_image_copies_is_sent_to_the_builder():
    """Every file that the image is made of is there, and is let through to the builder."""
    copied = [
        name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE) for name in line.split()
    ]
    allowed = re.findall(r"^!(.*)$", (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(copied) == sorted(allowed)
    assert [] == [name for name in copied if not (ROOT / name).exists()]


def test_the_lock_can_build_the_package():
    """What builds the wheel is in the lock, since the build is not isolated."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    names = [Requirement(text).name for text in project["build-system"]["requires"]]
    assert [] == [name for name in names if not re.search(rf"^{name}==", lock, re.MULTILINE)]


def test_settings_in_deploy_are_settings():
    """A name in the environment of image, compose file or unit is one that stef reads."""
    known = {row.env for row in SETTINGS}
    consumers = {
        name for path in (ROOT / "consumers").glob("*.yaml") for name in re.findall(r"\$\{(\w+)", path.read_text())
    }
    texts = [path.read_text(encoding="utf-8") for path in DEPLOY.iterdir()]
    named = {name for text in texts for name in re.findall(r"\bSTEF_[A-Z_]+\b", text)}
    assert set() == named - known - consumers
    assert {"STEF_STORE", "STEF_HTTP", "STEF_KAFKA"} <= named


# ── compose ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_compose_names_files_that_are_there():
    """What is built from and mounted exists."""
    build = SERVICES["stef"]["build"]
    mounts = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", ())]
    paths = [DEPLOY / mount for mount in mounts if mount.startswith(".")]
    assert [] == [path for path in [*paths, DEPLOY / build["context"] / build["dockerfile"]] if not path.exists()]
    assert {mount for mount in mounts if not mount.startswith(".")} == set(COMPOSE["volumes"])


def test_compose_reads_a_consumer_that_finds_its_broker():
    """The consumer that runs in the container reads from the broker beside it, and a topic that is made for it."""
    service = SERVICES["stef"]
    command, path = service["command"]
    assert "consume" == command
    source = consume.read(str(ROOT / path), service["environment"]).source
    assert isinstance(source, KafkaIn)
    assert ["kafka:19092"] == source.bootstrap
    assert f"INSIDE://{source.bootstrap[0]}" in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    (script,) = SERVICES["topics"]["command"]
    made = re.search(r"for topic in (.*);", script)
    assert made is not None
    assert [name for topic in source.topics for name in (topic, f"{topic}.dlq")] == made[1].split()


def test_compose_publishes_on_loopback_only():
    """Nothing of the example can be reached from another machine."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert [] == [port for port in ports if not port.startswith("127.0.0.1:")]


def test_every_image_has_a_version():
    """An image that is fetched is named with its version."""
    images = [service["image"] for name, service in SERVICES.items() if name != "stef"]
    assert [] == [image for image in images if not re.search(r":v?\d+\.\d+", image)]


def test_prometheus_scrapes_the_port_of_the_image():
    """Image, compose file and Prometheus agree on one port."""
    port = re.search(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE)
    assert port is not None
    targets = [
        target for job in PROMETHEUS["scrape_configs"] for group in job["static_configs"] for target in group["targets"]
    ]
    assert [f"stef:{port[1]}"] == targets
    assert [f"127.0.0.1:{port[1]}:{port[1]}"] == SERVICES["stef"]["ports"]
    assert f"STEF_HTTP=0.0.0.0:{port[1]}" in DOCKERFILE


def test_whoever_stops_stef_waits_for_it():
    """Compose and systemd give a process longer than it takes to drain."""
    assert int(SERVICES["stef"]["stop_grace_period"].removesuffix("s")) > DRAIN
    assert int(unit("TimeoutStopSec")[0]) > DRAIN


@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0,
    reason="docker compose is not installed",
)
def test_compose_understands_its_file():
    """Docker Compose itself takes the file, with every profile."""
    command = ["docker", "compose", "-f", str(DEPLOY / "compose.yaml"), "--profile", "prometheus", "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)


# ── systemd ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_instance_has_its_own_port():
    """The instance of the unit is the port, so that two processes cannot ask for one."""
    assert ["/opt/stef/bin/stef consume ${CONSUMER} --http 127.0.0.1:%i"] == unit("ExecStart")


def test_the_unit_does_not_repeat_what_cannot_help():
    """A wrong setting or file ends the unit; an outage starts it again."""
    assert [f"{errors.SettingError.exit_code} {errors.FileError.exit_code}"] == unit("RestartPreventExitStatus")
    assert ["on-failure"] == unit("Restart")


def test_the_consumer_of_the_unit_is_a_starter_file():
    """What the unit runs is there after `stef init`."""
    (path,) = [value.removeprefix("CONSUMER=") for value in unit("Environment") if value.startswith("CONSUMER=")]
    assert "kafka" == consume.read(str(ROOT / path), {}).name


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_unit(tmp_path):
    """The unit is one that systemd has nothing to say about."""
    # The program and the user of the unit need not be on this machine.
    text = UNIT.replace("/opt/stef/bin/stef", sys.executable)
    text = re.sub(r"^(User|Group)=.*$", r"\1=root", text, flags=re.MULTILINE)
    path = tmp_path / "stef@.service"
    path.write_text(text, encoding="utf-8")
    environment = {**os.environ, "SYSTEMD_LOG_LEVEL": "warning"}
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert [] == [line for line in done.stderr.splitlines() if "stef@" in line]
    assert 0 == done.returncode


# ── its README ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_readme_names_every_file():
    """The README of the folder has each file of it."""
    text = (DEPLOY / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in DEPLOY.iterdir()} - {"README.md", "Dockerfile.dockerignore"}
    assert files == set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))


def test_the_image_starts_what_the_package_installs():
    """The entry point of the image is the command of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f'ENTRYPOINT ["{stef.__name__}"]' in DOCKERFILE
    assert "stef" in project["scripts"]
