"""What ages: branches, staging, small files, old snapshots, orphans, generations that are not read any more."""
