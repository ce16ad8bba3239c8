"""What of a gate a person may waive, and what the checks are under a decision. Plain Python."""

from __future__ import annotations

from collections.abc import Sequence

from onefold.decisions import OWN_BATCH, Release, Standing, Waiver
from onefold.errors import NotWaivableError, UsageError
from onefold.quality.documents import Check


def why_not(check: Check) -> str | None:
    """Why a red check cannot be waived; None: it can."""
    if check.status == "errored":
        return "it could not be made, so nothing is known of what it asks"
    if check.waivable:
        return None
    return f"it guards law {check.law}" if check.law else "it is not a matter of judgement"


def under(checks: Sequence[Check], decision: Standing | None) -> list[Check]:
    """The checks as a decision leaves them: a release waives its own with their values, a skip all about content.

    Only checks that failed and may be waived change; another value, another check, or a law stays red.
    """
    if decision is None or isinstance(decision, OWN_BATCH):
        return list(checks)
    waived = {(one.check, one.value) for one in decision.in_force} if isinstance(decision, Release) else None

    def one_under(check: Check) -> Check:
        named = waived is None or (check.name, check.value) in waived
        if not (check.red and named and why_not(check) is None):
            return check
        return check.model_copy(update={"waived": decision.sentence})

    return [one_under(check) for check in checks]


def still_waived(checks: Sequence[Check], waivers: Sequence[Waiver]) -> list[Waiver]:
    """The waivers that a gate obeyed: their checks would be red without them, with the same values."""
    found = {(check.name, check.value) for check in checks if check.waived}
    return [one for one in waivers if (one.check, one.value) in found]


def waivers_of(
    dataset: str, batch: str, checks: Sequence[Check], words: Sequence[str], carried: Sequence[Waiver] = ()
) -> list[Waiver]:
    """The waivers that `check=value` words name; together they must name every red check, as it was found.

    `carried`: waivers that are in force without being named; they may be.

    Raises:
        NotWaivableError: a red check that nobody can waive.
        UsageError: words that fit no red check, or a red check without words.
    """
    red = [check for check in checks if check.red]
    if never := [f"{check.name}: {why}" for check in red if (why := why_not(check))]:
        raise NotWaivableError(dataset, batch, tuple(never))
    wanted = list(dict.fromkeys(Waiver(check=check.name, value=check.value) for check in red))
    known = {one.words for one in carried}
    named = [_named(batch, checks, wanted, one) for one in words if one not in known]
    if missing := [one.words for one in wanted if one not in named]:
        raise UsageError(
            f"{dataset}: batch {batch} is red by more than is waived. Nothing was decided. Look at the report, and if "
            "it is right all the same, add " + " ".join(f'--waive "{one}"' for one in missing)
        )
    return wanted


def _named(batch: str, checks: Sequence[Check], red: list[Waiver], words: str) -> Waiver:
    if found := next((one for one in red if one.words == words), None):
        return found
    fits = [one for one in checks if words.startswith(f"{one.name}=") or words == one.name]
    of_red = " ".join(f'--waive "{one.words}"' for one in red)
    if not fits:
        raise UsageError(f"batch {batch}: no check is named as --waive {words!r} says. Red: {of_red}")
    check = max(fits, key=lambda one: len(one.name))
    if not check.red:
        raise UsageError(f"batch {batch}: {check.name} is not red: there is nothing to waive. Red: {of_red}")
    raise UsageError(
        f"batch {batch}: --waive {words!r}: {check.name} found {check.value}. A waiver names the value that was looked "
        f"at: {of_red}"
    )
