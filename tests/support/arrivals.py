"""Exports through the lake of the settings, in one process: `python … DATASET=FOLDER …`; a JSON line of each.

`maintain=DATASET` clears away what is over, of whatever age.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta

from onefold.catalog import StateTable
from onefold.cli.run import run_batch
from onefold.dataset import find_dataset
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.maintenance.keep import Keep
from onefold.operations.in_process import InProcess
from onefold.settings import load_settings

AT_ONCE = Keep(attempts=timedelta(0), snapshots=timedelta(0), generations=timedelta(0))


def main(words: list[str]) -> None:
    lake = Lake(load_settings())
    spark = InProcess(lake)
    for word in words:
        name, _, folder = word.partition("=")
        if name == "maintain":
            tidied = spark.maintain(find_dataset(lake.settings.datasets_folder, folder), AT_ONCE, dry_run=False)
            print(tidied.model_dump_json(), flush=True)
            continue
        dataset = find_dataset(lake.settings.datasets_folder, name)
        done = run_batch(lake, dataset, plan_batch(lake, dataset, None, folder), spark)
        told = {
            "batch": done.batch,
            "already": done.published.already if done.published else None,
            "red": str(done.red) if done.red else None,
            "main": StateTable(lake, dataset).main.snapshot,
        }
        print(json.dumps(told), flush=True)
    spark.close()


if __name__ == "__main__":
    main(sys.argv[1:])
