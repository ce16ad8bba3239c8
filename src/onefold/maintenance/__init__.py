"""What ages: branches, staging, small files, old snapshots, orphans, generations that nobody reads any more."""
