"""The DAG by which a person decides a red batch."""

from airflow.sdk import DAG

from onefold.orchestration import dataset_names
from onefold.orchestration.decide_dag import decide_dag

if names := dataset_names():
    dag: DAG = decide_dag(names)
