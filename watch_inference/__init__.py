"""watch_inference: tells the truth about a running batch-inference job."""

__version__ = "0.1.0"

__all__ = ["__version__"]
