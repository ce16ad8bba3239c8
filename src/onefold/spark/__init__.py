"""The Spark session, the tables it opens and the jars it needs."""
