"""What the value of a record is written in: JSON, Avro, Protobuf or JSON by a JSON Schema, framed for a Schema Registry or bare.

``ValueReader`` turns bytes and headers into a dictionary of JSON types. It makes no requests: a schema that it lacks is fetched by
``SchemaSource``, outside the fold, and becomes part of the state (``Schemas``).
"""
