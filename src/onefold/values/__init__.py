"""From the envelope to the declared fields: how a value is decoded, and what an expression of the file asks for."""
