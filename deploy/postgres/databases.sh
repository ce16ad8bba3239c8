#!/bin/bash
# Runs once, when the server's folder is empty: a database and a user each for Airflow and for the catalog.
set -euo pipefail
: "${AIRFLOW_DATABASE_PASSWORD:?}" "${CATALOG_PASSWORD:?}"
create() { # NAME VARIABLE: the password is passed in the environment, because every user of the machine can read a command line
  psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --set "name=$1" --set "variable=$2" <<'SQL'
\getenv password :variable
CREATE USER :"name" PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
SQL
}
create airflow AIRFLOW_DATABASE_PASSWORD
create catalog CATALOG_PASSWORD
