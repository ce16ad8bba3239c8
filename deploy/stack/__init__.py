"""The services of docker-compose.yaml as processes of this machine: `make stack`, `make stack-down`.

`compose` reads the services and adapts each to this machine; `processes` starts and ends them; `s3`, `postgres` and
`spark` know the programs (the tests' servers use them, too); `pipeline` runs a DAG through the scheduler.
"""
