"""Records: the envelope that every layout's reader gives, and what decoding makes of it."""
