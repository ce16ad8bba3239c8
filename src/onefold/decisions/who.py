"""Who decided, and how that is known: authenticated by Airflow, or asserted on the command line."""

from __future__ import annotations

import getpass
import os
import pwd
import socket
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from onefold.errors import UsageError


class Decider(BaseModel):
    """Who decided. `how` is None in documents of earlier releases, which have a plain name."""

    model_config = ConfigDict(frozen=True)

    id: str
    """Airflow's id of the user, or the account on the host of the command line"""
    name: str
    """The display name; on the command line the one that was given by `--who`"""
    how: Literal["airflow", "cli"] | None = None
    host: str = ""
    """Where the decision was recorded"""

    @classmethod
    def earlier(cls, name: str) -> Decider:
        """Who decided by a document of an earlier release, which has a name only."""
        return cls(id=name, name=name)

    @classmethod
    def of_airflow(cls, user: str, name: str) -> Decider:
        """A user who has answered in Airflow."""
        return cls(id=user, name=name or user, how="airflow", host=socket.gethostname())

    @classmethod
    def asserted(cls, name: str | None) -> Decider:
        """Who runs this process, by a name of their choice; None: as the system names them.

        Raises:
            UsageError: the system has no name for them.
        """
        account = _account()
        try:
            shown = name or getpass.getuser()
        except (KeyError, OSError):  # a container's user without a name
            raise UsageError("the system has no name for this user: say --who. Nothing was decided.") from None
        return cls(id=account, name=shown, how="cli", host=socket.gethostname())

    @property
    def words(self) -> str:
        """The name, and what vouches for it."""
        return f"{self.name}{_VOUCHED[self.how]}"


_VOUCHED = {"airflow": " (Airflow)", "cli": " (asserted)", None: ""}


def _account() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


NOT_YET = Decider(id="", name="not approved yet")
"""Of a decision that is shown before it is made"""


class Attributed(BaseModel):
    """What has a decider, a reason and an instant. Documents of earlier releases have the name as `by`."""

    model_config = ConfigDict(frozen=True)

    who: Decider
    reason: str
    at: datetime

    @property
    def attribution(self) -> dict[str, Any]:
        """Who decided and why, as lists of decisions have it: the name as `by`, all that is known as `who`."""
        return {"by": self.who.name, "who": self.who.model_dump(), "reason": self.reason}

    @model_validator(mode="before")
    @classmethod
    def _of_an_earlier_release(cls, given: Any) -> Any:
        if isinstance(given, dict) and "by" in given and "who" not in given:
            given = {**{name: value for name, value in given.items() if name != "by"}, "who": given["by"]}
        if isinstance(given, dict) and isinstance(given.get("who"), str):
            given = {**given, "who": Decider.earlier(given["who"])}
        return given
