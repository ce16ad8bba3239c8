"""A notifier as anybody may write one: it appends what it gets to a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier


class FileNotifier(BaseNotifier):
    template_fields: Sequence[str] = ("subject", "body")

    def __init__(self, path: str, subject: str, body: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.path, self.subject, self.body = path, subject, body

    def notify(self, context: Any) -> None:
        with Path(self.path).open("a", encoding="utf-8") as file:
            file.write(
                json.dumps(
                    {"subject": self.subject, "body": self.body, "task": getattr(context.get("ti"), "task_id", None)}
                )
                + "\n"
            )
