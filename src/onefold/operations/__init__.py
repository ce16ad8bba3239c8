"""What the command line and Airflow call; who runs a Spark step is handed in as a `Launcher`."""
