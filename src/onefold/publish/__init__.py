"""Publication: one catalog commit that readers see whole, or not at all."""

from onefold.publish.publish import Published, StepLauncher, publish_batch

__all__ = ["Published", "StepLauncher", "publish_batch"]
