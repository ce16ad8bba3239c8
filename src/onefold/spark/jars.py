"""Fetch the pinned jars once into a folder, so that no session pays for their resolution again.

Ivy (inside Spark) resolves them from Maven with the user's own Ivy settings; every file is then held
against the checksum in `jars.lock`, which travels with the package.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from onefold.catalog import CATALOGS

PACKAGES: dict[str, tuple[str, ...]] = {
    "spark": (
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "org.xerial:sqlite-jdbc:3.50.3.0",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",  # ADR 10
    ),
    "s3": (
        "org.apache.hadoop:hadoop-aws:3.4.2",
        # The parts of Amazon's library that it uses, in place of the bundle of 640 MB.
        "software.amazon.awssdk:s3:2.29.52",
        "software.amazon.awssdk:s3-transfer-manager:2.29.52",
        "software.amazon.awssdk:apache-client:2.29.52",
        "software.amazon.awssdk:sts:2.29.52",
    ),
    **{kind.jars.name: kind.jars.packages for kind in CATALOGS.values() if kind.jars},
    "kafka": (
        "org.apache.kafka:kafka_2.13:4.1.2",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",  # without it the broker logs nothing
    ),
    "rest": (
        "org.apache.iceberg:iceberg-core:1.11.0",
        "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.5",
        "org.eclipse.jetty.compression:jetty-compression-server:12.1.5",
        "org.eclipse.jetty.compression:jetty-compression-gzip:12.1.5",
        "org.xerial:sqlite-jdbc:3.50.3.0",
    ),
    "registry": (),
    "debezium": (
        "io.debezium:debezium-connector-postgres:3.5.0.Final",
        "io.debezium:debezium-connector-mariadb:3.5.0.Final",
        "io.apicurio:apicurio-registry-utils-converter:2.6.13.Final",
        "org.apache.kafka:connect-runtime:4.3.0",
        "org.apache.kafka:connect-json:4.3.0",
        "org.apache.kafka:connect-transforms:4.3.0",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",
    ),
}
"""Jar sets by name: `spark` is what every session needs, `s3` a lake in a bucket; then what the kinds of catalogs need;
`kafka` a broker for recording and tests, `rest` the catalog server that Iceberg tests its own clients against,
`registry` a schema registry for tests, packed; `debezium` a worker of Kafka Connect for tests,
with connectors of two databases and a converter to Avro."""
CLASSIFIED = {
    "rest": (
        "org/apache/iceberg/iceberg-core/1.11.0/iceberg-core-1.11.0-tests.jar",
        "org/apache/iceberg/iceberg-open-api/1.11.0/iceberg-open-api-1.11.0-test-fixtures.jar",
    ),
    "registry": ("io/apicurio/apicurio-registry-app/2.6.13.Final/apicurio-registry-app-2.6.13.Final-all.tar.gz",),
}
"""Files of a Maven repository with a classifier, of which spark-submit's packages know nothing."""
MAVEN = "https://repo1.maven.org/maven2/"
"""Where those come from, unless `DEFAULT_ARTIFACT_REPOSITORY` (Spark's own variable) names a mirror."""

APART = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
"""Resolved by itself: what depends on it would ask for a version that not every mirror has."""
SHIPPED = (
    "com.google.code.findbugs:jsr305",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.lz4:lz4-java",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
"""What Spark's own connectors depend on and Spark brings along."""
UNUSED = {
    "s3": (
        "software.amazon.awssdk:bundle",
        "software.amazon.awssdk:netty-nio-client",
        "commons-codec:commons-codec",  # Spark has a newer version
        "commons-logging:commons-logging",  # Spark has a bridge
        "org.apache.httpcomponents:httpclient",  # Spark has it
        "org.apache.httpcomponents:httpcore",
        "org.slf4j:slf4j-api",
    ),
    **{kind.jars.name: kind.jars.unused for kind in CATALOGS.values() if kind.jars},
}
"""What packages of a set name and no session needs."""

LOCK = Path(__file__).with_name("jars.lock")


def jar_home() -> Path:
    """The folder that holds one folder of jars a set (`ONEFOLD_JARS`, else `.jars` in the project)."""
    return Path(os.environ.get("ONEFOLD_JARS", ".jars")).absolute()


def locked(jar_set: str) -> dict[str, str]:
    """The file names and SHA-256 digests that `jars.lock` gives for one set."""
    rows = (line.split() for line in LOCK.read_text().splitlines() if not line.startswith("#"))
    return {name: digest for group, name, digest in rows if group == jar_set}


def jars(jar_set: str = "spark") -> list[Path]:
    """The jars of a set, fetched first where they are missing; each is held against its checksum once."""
    folder = jar_home() / jar_set
    wanted = locked(jar_set)
    if not all((folder / name).exists() for name in wanted):
        fetch(jar_set, folder)
    found = sorted(folder / name for name in wanted)
    if jar_set == "kafka":  # spark-submit leaves out what Spark ships itself
        found += sorted((_spark_home() / "jars").glob("scala-library-*.jar"))
    return found


def fetch(jar_set: str, folder: Path) -> None:
    """Resolve a set into `folder`, whole or not at all; a wrong checksum is an error, never a warning."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        resolved = _resolve(jar_set, Path(scratch))
        for name, digest in locked(jar_set).items():
            found = digest_of(resolved / name) if (resolved / name).exists() else "missing"
            if found != digest:
                raise SystemExit(
                    f"jar {name}: expected SHA-256 {digest}, found {found}. Nothing was kept; "
                    "check the Maven mirror in use, then run `python -m onefold.spark.jars` again."
                )
        shutil.rmtree(folder, ignore_errors=True)
        resolved.rename(folder)


def digest_of(path: Path) -> str:
    """SHA-256 of a file, as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _resolve(jar_set: str, scratch: Path) -> Path:
    """Let spark-submit resolve a set's packages with an Ivy home of its own; the folder of jars it leaves."""
    packages = PACKAGES[jar_set]
    if files := CLASSIFIED.get(jar_set):
        folder = _submit(packages, SHIPPED, scratch) if packages else scratch / jar_set
        folder.mkdir(exist_ok=True)
        place = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY", MAVEN).rstrip("/")
        for file in files:
            target = folder / Path(file).name
            with urllib.request.urlopen(f"{place}/{file}", timeout=60) as answer, target.open("wb") as copy:
                shutil.copyfileobj(answer, copy)
        return folder
    apart = tuple(package for package in packages if package.startswith(APART))
    if not apart:
        return _submit(packages, UNUSED.get(jar_set, ()), scratch)
    _submit(apart, (*SHIPPED, "org.apache.kafka:kafka-clients"), scratch)
    return _submit(tuple(package for package in packages if package not in apart), (*SHIPPED, APART), scratch)


def _submit(packages: tuple[str, ...], without: tuple[str, ...], scratch: Path) -> Path:
    nothing = scratch / "nothing.py"
    nothing.write_text("")
    ivy = scratch / "ivy"
    home = _spark_home()
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]"]
    command += ["--packages", ",".join(packages), "--conf", f"spark.jars.ivy={ivy}"]
    command += [*(["--exclude-packages", ",".join(without)] if without else []), str(nothing)]
    environ = os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    folder = ivy / "jars"
    if done.returncode or not folder.is_dir():
        raise SystemExit(f"the jars could not be fetched:\n{done.stderr[-3000:]}")
    for jar in folder.iterdir():  # Ivy names them group_artifact-version.jar
        jar.chmod(0o644)
    return folder


def _spark_home() -> Path:
    """The folder of the installed pyspark, found without importing it (`python3` of PATH may be another)."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit("pyspark is not installed here: install requirements.lock first.")
    return Path(spec.origin).parent


def main(argv: list[str]) -> int:
    """`python -m onefold.spark.jars [--lock] [SET…]`: fetch sets (default `spark`), or rewrite the lock."""
    sets = [word for word in argv if not word.startswith("-")]
    if "--lock" in argv:
        lines = ["# jar set, file, SHA-256: written by `python -m onefold.spark.jars --lock`"]
        for name in PACKAGES:
            with tempfile.TemporaryDirectory() as scratch:
                found = sorted(_resolve(name, Path(scratch)).iterdir())
                lines += [f"{name} {jar.name} {digest_of(jar)}" for jar in found]
        LOCK.write_text("\n".join(lines) + "\n")
        return 0
    for name in sets or ["spark"]:
        print(f"jars for {name}: {len(jars(name))} in {jar_home() / name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
