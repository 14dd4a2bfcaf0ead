"""stub"""

from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import Page


def account(folder: RunFolder) -> Page:
    return Page("", ())
