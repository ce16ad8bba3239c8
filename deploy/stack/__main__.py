"""`python -m deploy.stack up | down`, for `make stack` and `make stack-down`."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import httpx

from deploy.stack.compose import PROJECT
from deploy.stack.pipeline import DATASET, run_pipeline
from deploy.stack.processes import StackError
from deploy.stack.stack import Stack


def up(stack: Stack, ports: dict[int, int]) -> None:
    """Start the stack and run the sample through it; if it is already running, say so."""
    standing = stack.files.standing()
    if standing and all(standing.values()):
        stack.say(f"The stack in {stack.folder} runs already.")
        _show_addresses(stack)
        return
    if dead := [name for name, process in standing.items() if process is None]:
        raise StackError(
            f"{', '.join(dead)} of the stack in {stack.folder} ended, see {stack.folder / 'logs'}. "
            "Nothing was started; end the rest with: make stack-down"
        )
    stack.start(ports)
    ran = run_pipeline(stack)
    _show_addresses(stack)
    if ran.batch:
        stack.say(f"report       {stack.url}/onefold/reports/{DATASET}/{ran.batch}")
    stack.say(f"published    {len(ran.rows)} rows of {DATASET}; to see them, in this shell:")
    stack.say(
        f"             . {stack.folder / 'environment'} && {sys.executable.rpartition('/')[0]}/onefold show {DATASET}"
    )


def down(stack: Stack, *, keep: bool) -> None:
    """End the stack, and remove its folder unless the data is kept."""
    if not (stack.folder / "stack.json").exists():
        stack.say(f"There is no stack in {stack.folder}.")
        return
    counted = stack.stop(keep=keep)
    left = f"its data stays in {stack.folder}" if keep else f"{stack.folder} is removed"
    stack.say(f"Ended {counted} processes; {left}.")


def main(argv: list[str] | None = None) -> int:
    """Entry point; 0 if it succeeded."""
    parser = argparse.ArgumentParser(prog="python -m deploy.stack", description=__doc__)
    parser.add_argument("what", choices=["up", "down"])
    parser.add_argument("--folder", type=Path, default=PROJECT / ".stack", help="where everything is written")
    parser.add_argument("--port", action="append", default=[], type=_port, metavar="8080=18080", help="another port")
    parser.add_argument("--keep", action="store_true", help="down: leave the data, for the next start")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    stack = Stack(args.folder, lambda line: print(line, flush=True))
    try:
        if args.what == "up":
            up(stack, dict(args.port))
        else:
            down(stack, keep=args.keep)
    except KeyboardInterrupt:
        return 130
    except (StackError, httpx.HTTPError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _show_addresses(stack: Stack) -> None:
    ports = stack.ports
    stack.say(f"Airflow      {stack.url}  user admin, password {stack.secrets['AIRFLOW_ADMIN_PASSWORD']}")
    stack.say(f"Spark        http://127.0.0.1:{ports['spark-master', 8080]}")
    stack.say(f"Kafka        127.0.0.1:{ports['kafka', 9094]}")
    stack.say(f"S3           http://127.0.0.1:{ports['s3', 7070]}  {stack.chosen.s3}, bucket lake")
    stack.say(f"logs         {stack.folder / 'logs'}   secrets {stack.folder / '.env'}")


def _port(word: str) -> tuple[int, int]:
    usual, _, wanted = word.partition("=")
    return int(usual), int(wanted)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main())
