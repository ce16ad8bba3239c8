"""What Spark runs: a file a step. Each `run` is the step's sequence; the logic lives in `onefold`."""
