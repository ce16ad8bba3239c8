"""Airflow's connections as Onefold's settings; what is secret in them travels by environment, never by arguments."""

from __future__ import annotations

import json

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from onefold.dataset import Dataset, find_dataset
from onefold.lake import Lake
from onefold.origins import speaks_of_secret
from onefold.settings import Settings, load_settings
from onefold.spark.settings import secret_settings
from onefold.upsert.generation import settle


def open_dataset(name: str) -> tuple[Lake, Dataset]:
    """The lake, and a dataset whose cluster's connection is looked up in Airflow where the settings name none."""
    settings = load_settings()
    dataset = find_dataset(settings.datasets_folder, name)
    lake = Lake(_connected(settings, dataset))
    return lake, settle(lake, dataset)


def _connected(settings: Settings, dataset: Dataset) -> Settings:
    kafka = dataset.source.kafka
    if kafka is None or kafka.connection in settings.kafka:
        return settings
    try:
        extra = BaseHook.get_connection(kafka.connection).extra_dejson
    except AirflowNotFoundException:
        return settings  # whoever asks the cluster says what is missing
    return settings.model_copy(update={"kafka": {**settings.kafka, kafka.connection: extra}})


def kafka_environment(settings: Settings) -> dict[str, str]:
    """The clusters' settings for a process that is started."""
    return {"ONEFOLD_KAFKA": json.dumps(settings.kafka)} if settings.kafka else {}


def secrets_of(lake: Lake) -> list[str]:
    """The settings' values that neither a log nor an error may repeat."""
    clusters = [pair for given in lake.settings.kafka.values() for pair in given.items()]
    named = [value for name, value in clusters if isinstance(value, str) and speaks_of_secret(name)]
    return [*named, *secret_settings(lake).values()]
