"""The authorities of `s3_ca_bundle`, as a JVM reads them."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

from cryptography.hazmat.primitives.serialization import NoEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.x509 import load_pem_x509_certificates

from onefold.errors import UsageError


def trust_settings(bundle: Path, folder: Path) -> dict[str, str]:
    """Spark's settings by which every JVM trusts these authorities, in place of its own.

    The store of them is made in `folder`; executors find what is sent to them in the folder that they run in.

    Raises:
        UsageError: the bundle holds no certificates.
    """
    store = _store_of(bundle, folder)
    return {
        "spark.files": str(store),
        "spark.driver.defaultJavaOptions": _options(str(store)),  # `extraJavaOptions` stay the user's
        "spark.executor.defaultJavaOptions": _options(store.name),
    }


def _options(store: str) -> str:
    return f'"-Djavax.net.ssl.trustStore={store}" -Djavax.net.ssl.trustStoreType=PKCS12'


def _store_of(bundle: Path, folder: Path) -> Path:
    data = bundle.read_bytes()
    store = folder / f"authorities-{hashlib.sha256(data).hexdigest()[:12]}.p12"
    if store.is_file():
        return store
    try:
        found = [PKCS12Certificate(certificate, None) for certificate in load_pem_x509_certificates(data)]
    except ValueError as error:
        raise UsageError(f"s3_ca_bundle: {bundle} holds no certificates in PEM: {error}. Nothing was run.") from error
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / f".{secrets.token_hex(6)}"
    scratch.write_bytes(serialize_java_truststore(found, NoEncryption()))
    scratch.replace(store)
    return store
