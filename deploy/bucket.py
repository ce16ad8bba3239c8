"""Create the lake's bucket where there is none."""

import os
import sys
from contextlib import suppress

import boto3

store = boto3.client("s3")
with suppress(store.exceptions.BucketAlreadyOwnedByYou, store.exceptions.BucketAlreadyExists):
    store.create_bucket(Bucket=sys.argv[1])
print(f"bucket {sys.argv[1]} at {os.environ['AWS_ENDPOINT_URL']}")
