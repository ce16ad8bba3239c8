"""Every error says what, where and what now, survives a process boundary, and maps to an exit code."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import re
import typing

import pytest

from onefold import errors
from onefold.errors import OneBatchError, OnefoldError, TerminalError, TransientError, UnknownOutcomeError
from onefold.jvm_errors import cause_of
from onefold.spark.result import StepResult

ROOTS = (OnefoldError, OneBatchError, TerminalError, TransientError, UnknownOutcomeError)
KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, OnefoldError) and kind not in ROOTS
]
SAMPLES: dict[object, object] = {
    str: "some-{}",
    int: 40217,
    int | None: 40217,
    bool: False,
    tuple[str, ...]: ("first", "second"),
}


def make_error(kind: type[OnefoldError]) -> OnefoldError:
    """An instance whose fields all have values that a message can be searched for."""
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    values = {name: SAMPLES[hints[name]] for name in names}
    named = {name: value.format(name) if isinstance(value, str) else value for name, value in values.items()}
    return kind(**named)


def test_there_are_errors_to_walk() -> None:
    assert len(KINDS) >= 16


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_message_is_composed_of_the_fields(kind: type[OnefoldError]) -> None:
    error = make_error(kind)
    message = str(error)
    assert message != kind.__name__
    assert not re.search(r"[{}]|None", message), message
    said = [field.name for field in dataclasses.fields(error) if _values(error, field.name) <= set(_words(message))]  # type: ignore[arg-type]
    # Each field but at most one (which the message may leave to the caller's context) is in the message.
    assert len(said) >= len(dataclasses.fields(error)) - 1, (message, said)  # type: ignore[arg-type]


def _values(error: OnefoldError, name: str) -> set[str]:
    value = getattr(error, name)
    return set(value) if isinstance(value, tuple) else {str(value)}


def _words(message: str) -> list[str]:
    return re.findall(r"[\w-]*\w", message)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_it_is_pickled_whole(kind: type[OnefoldError]) -> None:
    error = make_error(kind)
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert dataclasses.asdict(back) == dataclasses.asdict(error)  # type: ignore[call-overload]
    assert str(back) == str(error)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_it_says_what_the_caller_does_next(kind: type[OnefoldError]) -> None:
    assert sum(issubclass(kind, root) for root in (TerminalError, TransientError, UnknownOutcomeError)) == 1
    assert kind.exit_code in {1, 2, 3, 4, 5}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_spark_steps_result_document_gives_the_same_error_back(kind: type[OnefoldError]) -> None:
    error = make_error(kind)
    result = StepResult(step="gate", error=kind.__name__, fields=dataclasses.asdict(error))  # type: ignore[call-overload]
    read = StepResult.model_validate_json(result.model_dump_json())
    with pytest.raises(kind) as raised:
        read.unwrap()
    assert str(raised.value) == str(error)


def test_exit_codes_are_those_of_the_help() -> None:
    wanted = {
        "InvalidDatasetError": 2, "NotSupportedYetError": 2, "UnknownDatasetError": 2, "UsageError": 2,
        "ChangedDatasetError": 2, "TargetTakenError": 2, "NothingToReadError": 2, "StepMissingError": 2,
        "UnknownTopicError": 2, "ChangesUnknownError": 2, "NoDraftError": 2, "DatasetExistsError": 2,
        "ClientSettingsError": 2, "AuditRedError": 3,
        "GateRedError": 3, "ForeignCommitError": 3, "DataLossError": 4, "LandedBytesMissingError": 4,
        "ContentionError": 5, "ExportColumnError": 2, "UnreadableObjectError": 4,
        "RolledBackError": 2, "StaleError": 3, "BatchesWaitError": 3,
        "NotWaivableError": 3, "NotProvedError": 3, "RepeatedKeysError": 3, "DecidedMeanwhileError": 5,
        "ErasureDisturbedError": 5, "ChangedDocumentError": 3,
    }  # fmt: skip
    assert {kind.__name__: kind.exit_code for kind in KINDS if kind.exit_code != 1} == wanted


def test_a_dataset_error_without_a_line_names_the_file_alone() -> None:
    assert str(errors.InvalidDatasetError("a.yaml", None, "", "is odd")) == "a.yaml: is odd. Nothing was run."
    assert str(errors.InvalidDatasetError("a.yaml", 3, "key", "is odd")) == "a.yaml:3: key: is odd. Nothing was run."


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("x\nCaused by: a.B: one\n\tat c\nCaused by: d.E: two\n\tat f", "d.E: two"),
        ("first\nsecond", "first"),
        ('x\nCaused by: a.B: failed: 500: {\n"message":"gone",\n"status":"500"\n}\n\tat c',
         'a.B: failed: 500: { "message":"gone", "status":"500" }'),
        ("", "ValueError"),
    ],
)  # fmt: skip
def test_the_cause_that_a_jvm_names_is_one_line(message: str, cause: str) -> None:
    assert cause_of(ValueError(message)) == cause
