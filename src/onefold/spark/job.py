"""A Spark step as a process: arguments in, a small result document out, for the submitter."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel
from pyspark.sql import SparkSession

from onefold import errors
from onefold.dataset import Dataset
from onefold.generation import open_dataset
from onefold.jvm_errors import cause_of
from onefold.lake import Lake
from onefold.processes import end_soon
from onefold.settings import load_settings
from onefold.spark.result import APPLICATION, StepResult, result_key
from onefold.spark.session import open_session

Run = Callable[[SparkSession, Lake, Dataset, str, str], BaseModel]


def main_of(run: Run, argv: list[str]) -> int:
    """Run one step for `--dataset --batch --attempt` and leave its `StepResult` in the lake; the exit code."""
    end_soon()
    step = run.__module__.rpartition(".")[2] if run.__module__ != "__main__" else _step_name()
    parser = argparse.ArgumentParser(prog=step, description=f"Onefold's Spark step {step}")
    parser.add_argument("--dataset", required=True, help="name of the dataset")
    parser.add_argument("--batch", required=True, help="batch id")
    parser.add_argument("--attempt", required=True, help="id of this try")
    args = parser.parse_args(argv)
    lake = Lake(load_settings())
    try:
        dataset = open_dataset(lake, args.dataset)
        with_session = open_session(lake, f"onefold {step} {args.dataset} {args.batch}")
        context = with_session.sparkContext
        page = f", its page while it runs: {context.uiWebUrl}" if context.uiWebUrl else ""
        print(f"{APPLICATION}{context.applicationId}{page}", flush=True)
        document = run(with_session, lake, dataset, args.batch, args.attempt)
        result = StepResult(step=step, document=document.model_dump(mode="json"))
    except errors.OnefoldError as error:
        fields: dict[str, Any] = {field.name: getattr(error, field.name) for field in dataclasses.fields(error)}  # type: ignore[arg-type]
        result = StepResult(step=step, error=type(error).__name__, fields=json.loads(json.dumps(fields)))
        print(error, file=sys.stderr)
        lake.put(result_key(args.dataset, args.batch, args.attempt, step), result)
        return error.exit_code
    except Exception as error:
        problem = f"{type(error).__name__}: {cause_of(error)}"
        fields = {"step": step, "of": f"{args.dataset} {args.batch}", "problem": problem}
        result = StepResult(step=step, error="SparkStepError", fields=fields)
        lake.put(result_key(args.dataset, args.batch, args.attempt, step), result)
        raise
    lake.put(result_key(args.dataset, args.batch, args.attempt, step), result)
    return 0


def _step_name() -> str:
    return sys.argv[0].rpartition("/")[2].removesuffix(".py")
