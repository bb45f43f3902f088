"""The sections of a page, one file each: every one makes markup of a story, or nothing where there is nothing to show."""
