"""Publication: one catalog commit that readers see whole, or not at all."""

from onefold.publish.publish import Launch, Published, publish_batch

__all__ = ["Launch", "Published", "publish_batch"]
