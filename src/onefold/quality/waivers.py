"""Which red checks may be waived, and what the checks are under a decision. Plain Python.

A waiver names a check by its id, and holds the digest of what was looked at. A waiver that was recorded by a title, as
the check has or had it, is of that check; a waiver that was recorded without a digest holds by id and value alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from onefold.decisions import OWN_BATCH, Release, Standing, Waiver
from onefold.errors import NotWaivableError, UsageError, nearest
from onefold.quality.checks import id_of
from onefold.quality.documents import CheckResult

OTHER_RECORDS = "the release accepted the same number of other records"
"""Why a waiver with the value of a check does not hold for it."""


def why_not(check: CheckResult) -> str | None:
    """Why a red check cannot be waived; None: it can."""
    if check.status == "errored":
        return "it could not be made, so nothing is known of what it asks"
    if check.waivable:
        return None
    return f"it guards law {check.law}" if check.law else "it is not a matter of judgement"


def under(checks: Sequence[CheckResult], decision: Standing | None) -> list[CheckResult]:
    """The checks as a decision leaves them: a release waives its own with their values and digests, a skip all about
    content.

    Only checks that failed and may be waived change; another value, another digest, another check, or a law stays red.
    """
    if decision is None or isinstance(decision, OWN_BATCH):
        return list(checks)
    waivers = list(map(by_id, decision.in_force)) if isinstance(decision, Release) else None

    def waive(check: CheckResult) -> CheckResult:
        if not check.red or why_not(check) is not None:
            return check
        if waivers is None or any(_holds(waiver, check) for waiver in waivers):
            return check.model_copy(update={"waived": decision.sentence})
        if _waiver_of(check).words in {waiver.words for waiver in waivers}:
            return check.model_copy(update={"not_waived": OTHER_RECORDS})
        return check

    return [waive(check) for check in checks]


def by_id(waiver: Waiver) -> Waiver:
    """The waiver with its check's id. Earlier decisions have the title that the check had then."""
    return waiver.model_copy(update={"check": id_of(waiver.check)})


def with_id(words: str) -> str:
    """`check=value` with the check's id, where the words have one of its titles. A title may hold the sign, too."""
    for sign in re.finditer("=", words):
        named = words[: sign.start()]
        if id_of(named) != named:
            return f"{id_of(named)}{words[sign.start() :]}"
    return words


def still_waived(checks: Sequence[CheckResult], waivers: Sequence[Waiver]) -> list[Waiver]:
    """The waivers that a gate obeyed: their checks would be red without them, with the same values."""
    obeyed = [check for check in checks if check.waived]
    return [waiver for waiver in map(by_id, waivers) if any(_holds(waiver, check) for check in obeyed)]


def waivers_of(
    dataset: str, batch: str, checks: Sequence[CheckResult], words: Sequence[str], carried: Sequence[Waiver] = ()
) -> list[Waiver]:
    """The waivers that `check=value` words name, with a check's id or its title; together they must name every red
    check, as it was found.

    `carried`: waivers that are in force without being named; they may be.

    Raises:
        NotWaivableError: a red check that cannot be waived.
        UsageError: words that fit no red check, or a red check without words.
    """
    red = [check for check in checks if check.red]
    if never := [f"{check.title}: {why}{check.suffix}" for check in red if (why := why_not(check))]:
        raise NotWaivableError(dataset, batch, tuple(never))
    needed = list(dict.fromkeys(map(_waiver_of, red)))
    in_force = {waiver.words for waiver in carried}
    named = [_named(batch, checks, needed, word) for word in words if with_id(word) not in in_force]
    if missing := [waiver.words for waiver in needed if waiver not in named]:
        raise UsageError(
            f"{dataset}: batch {batch} is red by more than is waived. Nothing was decided. Look at the report, and if "
            "it is right all the same, add " + " ".join(f'--waive "{needed_words}"' for needed_words in missing)
        )
    return needed


def _waiver_of(check: CheckResult) -> Waiver:
    return Waiver(check=check.id, value=check.value, digest=check.digest)


def _holds(waiver: Waiver, check: CheckResult) -> bool:
    """Whether a check is what a waiver was given for."""
    same_value = (waiver.check, waiver.value) == (check.id, check.value)
    return same_value and waiver.digest in (None, check.digest)


def _named(batch: str, checks: Sequence[CheckResult], red: list[Waiver], given: str) -> Waiver:
    """The waiver of a red check that words name.

    Raises:
        UsageError: they name none, or another value than it found.
    """
    words = id_of(with_id(given))
    if waiver := next((waiver for waiver in red if waiver.words == words), None):
        return waiver
    all_of_red = "Red: " + " ".join(f'--waive "{waiver.words}"' for waiver in red)
    fitting = [check for check in checks if words.startswith(f"{check.id}=") or words == check.id]
    if not fitting:
        name = given.partition("=")[0]
        raise UsageError(
            f"batch {batch}: --waive {given!r}: there is no check {name!r} here"
            f"{nearest(name, {check.id for check in checks})}. Nothing was decided. {all_of_red}"
        )
    check = max(fitting, key=lambda check: len(check.id))
    if not check.red:
        raise UsageError(
            f"batch {batch}: {check.id} is not red: there is nothing to waive. Nothing was decided. {all_of_red}"
        )
    raise UsageError(
        f"batch {batch}: --waive {given!r}: {check.id} found {check.value}. A waiver names the value that was looked "
        f"at. Nothing was decided. {all_of_red}"
    )
