"""The services of docker-compose.yaml as processes of this machine: `make stack`, `make stack-down`.

`compose` reads which services there are and says each for this machine; `processes` starts and ends them; `s3`,
`postgres` and `spark` know the programs (tests start theirs by them too); `pipeline` runs a DAG through the scheduler.
"""
