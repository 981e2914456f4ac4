"""What a reader of explanations can be told."""


class ClientError(Exception):
    """Something that the message names, with what to do about it."""


class SchemaError(ClientError):
    """A message that this version of the client cannot read."""


class ChainError(ClientError):
    """Messages of a partition that are lost, doubled, out of order or altered."""
