"""How the records of a key become a row, one file a mode; what modes share has one place each. Frames go in and out: no
table is opened here."""
