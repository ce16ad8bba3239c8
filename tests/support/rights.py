"""Access rules of a real broker, for as long as a test needs them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Settings of a broker that keeps to access rules."""


def acl(kind: Any, name: str, operation: Any, permission: Any) -> AclBinding:
    """A rule for a client without a login."""
    return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, permission)


@contextlib.contextmanager
def granted(admin: AdminClient, rights: list[AclBinding]) -> Iterator[None]:
    """Access rules that the broker itself tells, so that they hold; they go afterwards."""
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )

    def await_count(count: int) -> None:
        deadline = time.monotonic() + 30
        while len(admin.describe_acls(every).result(30)) != count:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    for future in admin.create_acls(rights).values():
        future.result(30)
    await_count(len(rights))
    try:
        yield
    finally:
        for future in admin.delete_acls([every]).values():
            future.result(30)
        await_count(0)
