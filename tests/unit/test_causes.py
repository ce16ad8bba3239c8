"""Each way in which a duplicate comes about has its cause, and each cause names what prevents it."""

from __future__ import annotations

import pytest

from onefold.dedup.documents import Producers, Session
from onefold.report import causes
from onefold.report.causes import Cause, cause_of, causes_of, untold
from onefold.upsert.documents import Counted, Duplicates, Highest
from onefold.upsert.producer_sequences import KEPT, come_again, highest_after, restarted


def group(
    reason: str,
    place: str = "same_partition",
    session: str = "unknown",
    obj: str = "same_object",
    records: int = 1,
    seconds: tuple[float, float, float] | None = None,
) -> Duplicates:
    scope = "stored" if obj == "earlier_batch" else "in_batch"
    return Duplicates(
        reason=reason,
        scope=scope,
        place=place,
        session=session,
        object=obj,
        records=records,
        seconds=seconds,
        record="t-0@2",
        survivor="t-0@1",
    )


CASES: list[tuple[Duplicates, Cause]] = [
    (group("position", "same_position", obj="earlier_batch"), causes.READ_AGAIN),
    (group("position", "other_partition", obj="earlier_batch"), causes.READ_AGAIN),  # its key's row is another record
    (group("position", "same_position", obj="other_object"), causes.EXPORTED_TWICE),
    (group("position", "same_position", obj="same_object"), causes.WRITTEN_TWICE),
    (group("position", "same_partition", obj="same_object"), causes.EXPORTED_TWICE),
    (group("position", causes.UNKNOWN, obj=causes.UNKNOWN), causes.CAME_TWICE),
    (group("producer", session="same_session"), causes.BROKER_FORGOT),
    (group("producer", session="same_name"), causes.LOST_ACKNOWLEDGEMENT),
    (group("producer", session="same_name_again", obj="earlier_batch"), causes.BROKER_FORGOT_NAME),
    (group("message_id", session="same_session"), causes.SENT_AGAIN),
    (group("message_id", session="same_name_again"), causes.SENT_AGAIN),
    (group("message_id", session="same_name"), causes.SENT_AGAIN),
    (group("message_id", session="other_epoch"), causes.RESTARTED),
    (group("message_id", session="other_producer", obj="earlier_batch"), causes.RESTARTED),
    (group("message_id"), causes.UNKNOWN_SENDER),
    (group("message_id", "other_partition", "other_producer"), causes.OTHER_PLACE),
    (group("message_id", "other_topic"), causes.OTHER_PLACE),
    (group("message_id", "other_incarnation", "other_producer"), causes.RECREATED),
    (group("message_id", "other_cluster"), causes.MIRRORED),
    (group("business_key", "other_partition", "same_session"), causes.APPLICATION),
    (group("key_version"), causes.SAME_VERSION),
]


@pytest.mark.parametrize(("duplicates", "cause"), CASES, ids=lambda value: getattr(value, "name", None))
def test_a_duplicate_has_the_cause_that_its_survivor_tells(duplicates: Duplicates, cause: Cause) -> None:
    assert cause_of(duplicates) is cause


def test_every_cause_is_reached_and_says_what_prevents_it() -> None:
    defined = [cause for cause in vars(causes).values() if isinstance(cause, Cause)]
    assert {cause.name for cause in defined} == {cause.name for _, cause in CASES}
    assert all(cause.tells.endswith(".") and cause.prevents.endswith(".") for cause in defined)
    assert all(change.value or change.note for cause in defined for change in cause.settings)


def test_every_reason_of_a_duplicate_has_a_cause_of_its_own_also_where_nothing_else_is_known() -> None:
    reasons = ["position", "producer", "message_id", "business_key", "key_version"]
    found = [cause_of(rest) for rest in untold(dict.fromkeys(reasons, 1), [])]
    assert found == [
        causes.CAME_TWICE,
        causes.LOST_ACKNOWLEDGEMENT,
        causes.UNKNOWN_SENDER,
        causes.APPLICATION,
        causes.SAME_VERSION,
    ]


def test_a_forgotten_producer_name_is_explained_by_the_brokers_own_settings_and_not_by_kafkas() -> None:
    advice = [str(change) for change in causes.BROKER_FORGOT_NAME.settings]
    assert advice[:3] == [
        "brokerDeduplicationEnabled=true (or the namespace's or topic's own deduplication)",
        "brokerDeduplicationSnapshotIntervalSeconds=120 (or less)",
        "brokerDeduplicationEntriesInterval=1000 (or less)",
    ]
    again, lost = group("producer", session="same_name_again", records=2), group("producer", session="same_name")
    assert [(cause.cause, cause.records) for cause in causes_of([lost, again])] == [
        (causes.BROKER_FORGOT_NAME, 2),
        (causes.LOST_ACKNOWLEDGEMENT, 1),
    ]


def test_what_is_explained_is_not_counted_again_by_its_reason() -> None:
    explained = [group("producer", records=3), group("position", records=2)]
    left = untold({"producer": 3, "position": 5, "message_id": 0}, explained)
    assert [(rest.reason, rest.records) for rest in left] == [("position", 3)]


def test_jepsens_duplicate_is_one_message_at_two_offsets_of_one_log() -> None:
    """`duplicate-cases` of jepsen.tests.kafka: one value at more than one offset of a key, which is a partition."""
    words = {cause.name: cause.jepsen for _, cause in CASES}
    wanted = {
        cause.name: "duplicate"
        for duplicates, cause in CASES
        if duplicates.place == "same_partition" and duplicates.reason in ("producer", "message_id")
    }
    assert {name: word for name, word in words.items() if word} == wanted


def test_causes_are_summed_over_their_groups_the_most_frequent_first() -> None:
    found = causes_of(
        [
            group("business_key", records=3),
            group("message_id", records=2, seconds=(1, 2, 9)),
            group("message_id", records=4, obj="other_object", seconds=(0.5, 2, 3)),
        ]
    )
    assert [(counted.cause, counted.records, counted.seconds) for counted in found] == [
        (causes.UNKNOWN_SENDER, 6, (0.5, 9)),
        (causes.APPLICATION, 3, None),
    ]
    assert found[0].example.object == "other_object"


def session(start: int, lowest: int, highest: int, *, producer: str = "p", epoch: int = -1) -> Session:
    count = highest - lowest + 1
    return Session(
        partition="c/t/1/0",
        producer=producer,
        epoch=epoch,
        records=count,
        start=start,
        end=start + count,
        first=lowest,
        last=highest,
        lowest=lowest,
        highest=highest,
        highest_at=start + count - 1,
        outcomes={"accepted": count, "repeat": 0, "gap": 0, "fenced": 0},
        missing=0,
        first_anomaly=None,
    )


def producers(*listed: Session, unlisted: int = 0) -> Producers:
    return Producers(sessions=len(listed) + unlisted, outcomes={}, missing=0, listed=list(listed))


def make_highest(
    sequence: int,
    offset: int,
    counted: tuple[int, int, int, int] | None = None,
    *,
    producer: str = "p",
    epoch: int = -1,
) -> Highest:
    """`counted`: the first offset and its sequence, the end and the sequence before it."""
    of_name = counted and Counted(**dict(zip(Counted.model_fields, counted, strict=True)))
    return Highest(
        partition="c/t/1/0", producer=producer, epoch=epoch, sequence=sequence, offset=offset, counted=of_name
    )


def test_the_highest_sequence_of_a_producer_only_rises_whatever_the_order_of_the_batches() -> None:
    first, other = producers(session(0, 0, 9)), producers(session(10, 10, 19))
    assert highest_after(other, highest_after(first, [])[0]) == ([make_highest(19, 19, (0, 0, 20, 19))], 0)
    assert highest_after(first, highest_after(other, [])[0]) == ([make_highest(19, 19, (0, 0, 20, 19))], 0)
    strangers = [make_highest(5, 5, producer="q")]
    assert highest_after(first, strangers) == ([make_highest(9, 9, (0, 0, 10, 9)), *strangers], 0)
    assert highest_after(None, strangers) == (strangers, 0)


def test_sessions_that_are_not_remembered_are_counted() -> None:
    """The oldest go first; what a batch has too many to list is not remembered at all."""
    before = [make_highest(1, 1, producer=f"p-{number}") for number in range(KEPT)]
    seen, left_out = highest_after(producers(session(9, 0, 0), session(10, 0, 0, producer="p-0"), unlisted=3), before)
    assert seen == [
        make_highest(0, 9, (9, 0, 10, 0)),
        make_highest(1, 1, (10, 0, 11, 0), producer="p-0"),
        *before[1:-1],
    ]
    assert left_out == 1 + 3
    assert highest_after(None, before) == (before, 0)


def test_what_begins_behind_and_below_the_highest_was_received_again() -> None:
    before = [make_highest(9, 9)]
    stale = session(20, 6, 12)  # the broker took 6 to 9 again, from a snapshot that ended at 5
    assert come_again([stale], before) == [(stale, before[0])]
    assert come_again([session(10, 10, 12)], before) == []  # goes on
    assert come_again([session(4, 4, 9)], before) == []  # the same records once more: not behind what was seen
    assert come_again([session(20, 0, 3, producer="q")], before) == []
    wrapped = [make_highest(2**31 - 1, 9, epoch=3)]
    assert come_again([session(10, 0, 4, epoch=3)], wrapped) == []  # after 2³¹-1 comes 0
    assert highest_after(producers(session(10, 0, 4, epoch=3)), wrapped) == ([make_highest(4, 14, epoch=3)], 0)


def test_a_named_producer_that_falls_back_to_its_beginning_with_a_batch_begins_again() -> None:
    before = [make_highest(30, 20, (0, 10, 21, 30))]

    def find_restarts(*sessions: Session, seen: list[Highest] = before) -> list[tuple[int, int, int]]:
        return [(restart.offset, restart.sequence, restart.highest) for restart in restarted(list(sessions), seen)]

    assert find_restarts(session(21, 10, 14)) == [(21, 10, 30)]
    assert find_restarts(session(40, 0, 99)) == [(40, 0, 30)], "also where it goes beyond"
    assert find_restarts(session(21, 12, 14)) == [(21, 12, 30)], "a tenth of what was counted is left"
    assert find_restarts(session(21, 13, 14)) == [], "a late retry"
    assert find_restarts(session(21, 31, 34)) == [], "it goes on"
    assert find_restarts(session(15, 10, 14)) == [], "it lies among what was seen"
    assert find_restarts(session(21, 10, 14, producer="q"), session(21, 10, 14, epoch=0)) == []
    assert find_restarts(session(21, 10, 14), seen=[make_highest(30, 20)]) == [], (
        "of an earlier release it is not known"
    )
    once_more = highest_after(producers(session(21, 10, 14)), before)[0]
    assert once_more == [make_highest(30, 20, (0, 10, 26, 14))]
    assert find_restarts(session(26, 15, 16), seen=once_more) == [], "it counts on since"
    assert find_restarts(session(26, 11, 12), seen=once_more) == [(26, 11, 30)]
