"""Pages for Airflow's UI. Knows no airflow: who may read what is handed in (`plugins/onefold_plugin.py`)."""
